# Read by every job: one attempt at a job, from its beginning to what becomes of it.
# Set before: folder, job, kind, and scheduler.sh was read.

stopped='' child='' place='' short='' partial='' watcher='' workspace='' at=''
# What a site does to a job, and not the build: no space left, a workspace or mirror in use, a program that
# is not there, a command that was killed.
site_codes=" 52 75 126 127 129 130 137 143 "
[ "$kind" != fetch ] || site_codes+="30 "
# Read before the work: a command that was killed since then by the kernel was out of memory, and not the site's.
oom_kills() {
  sed -n 's/^oom_kill //p' /proc/vmstat
}
oom_before=$(oom_kills)
out_of_memory=51
# How often a job may queue itself again: after a site's failure, and at its time limit.
site_budget=3 time_budget=20
site_failed=75

begin() {
  if [ -e "$folder/done/$job" ]; then
    echo "$job is done already"
    exit 0
  fi
  mkdir -p "$folder/done" "$folder/ended" "$folder/tries" "$folder/results" "$folder/builds"
  rm -f "$folder/ended/$job"
  cd "$folder" || exit $site_failed
  trap 'stopped=time; look; pass_on' USR1
  # At the limit itself Slurm sends what it sends to a job that is cancelled.
  trap '[ "$stopped$((SECONDS < ${limit_s:-0}))" = time0 ] || stopped=cancelled; pass_on' TERM INT
  watch_the_time
}

# Sets at: the object that the oldest compiler or linker of the build is making.
look() {
  local process word before=''
  [ -n "$workspace" ] || return 0
  for process in $(pgrep -u "$(id -u)" -f -- ' -o [^ ]'); do
    case $(readlink "/proc/$process/cwd") in
      "$workspace"/*) ;;
      *) continue ;;
    esac
    while IFS= read -r -d '' word; do
      [ "$before" != -o ] || at=$word
      before=$word
    done <"/proc/$process/cmdline"
    [ -z "$at" ] || return 0
  done
}

pass_on() {
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}

# Keeps the paths of sockets below 108 bytes: sets TMPDIR to a short folder.
short_temporary() {
  TMPDIR=$1
  if [ "${#TMPDIR}" -gt 60 ]; then
    short=$(mktemp -d /tmp/xb.XXXXXX) || settle $site_failed
    TMPDIR=$short
  fi
  mkdir -p "$TMPDIR" || settle $site_failed
  export TMPDIR
}

# Sets place: a folder on the node's own disk, the same one for each attempt, or one of the shared file system. Of
# several nodes all have to see it.
work_in() {
  [ "${nodes:-1}" != 1 ] || place=$(own_folder "$1")
  if [ -z "$place" ]; then
    place=$folder/builds/$1
    mkdir -p "$place" || settle $site_failed
  fi
  bring_back
  short_temporary "$place/t"
}

# Prints a folder on the node's own disk, which nobody else can have put there; nothing where there is none.
own_folder() {
  local base own
  base=$(local_disk)
  own=$base/xb-$(id -u)-$1
  if [ -n "$base" ] && mkdir -p "$base" 2>/dev/null; then
    mkdir -m 700 "$own" 2>/dev/null
    [ ! -d "$own" ] || [ -L "$own" ] || [ ! -O "$own" ] || printf '%s' "$own"
  fi
}

kept() {
  printf '%s' "$folder/builds/$job.tar"
}

on_own_disk() {
  [ -n "$place" ] && [ "$place" != "$folder/builds/${place##*/}" ]
}

bring_back() {
  [ -e "$(kept)" ] && [ ! "$place/ws/journal.db" -nt "$(kept)" ] || return 0
  echo "unpacking what an earlier attempt made"
  if ! { rm -rf "$place" && mkdir -m 700 "$place" && tar -C "$place" -xf "$(kept)"; }; then
    settle $site_failed
  fi
}

# What was made on the node's own disk goes to the shared file system: the next attempt may run elsewhere.
keep() {
  [ -n "$place" ] || return 0
  if [ "$kind" != build ]; then
    rm -rf "$place"
    return
  fi
  on_own_disk && [ -d "$place/ws" ] || return 0
  tar -C "$place" --exclude ./t -cf "$(kept).part" . && mv -f "$(kept).part" "$(kept)" && rm -rf "$place"
}

# Runs a command; a signal to the job goes to the command, which ends cleanly.
run() {
  [ -z "$stopped" ] || settle $site_failed
  "$@" &
  child=$!
  while kill -0 "$child" 2>/dev/null; do
    wait "$child"
  done
  wait "$child"
  local code=$?
  child=''
  [ "$code" -eq 0 ] || settle "$code"
}

# As run; its standard output is a file. That of a failure is the document of the error.
run_into() {
  local target=$1
  shift
  partial=$target.part
  into "$partial" "$@"
  partial=''
  mv -f "$target.part" "$target" || settle $site_failed
}

into() {
  exec 3>&1 >"$1" || settle $site_failed
  shift
  run "$@"
  exec 1>&3 3>&-
}

again() {
  local last=()
  echo "$(date +%s) $job_id $at" >>"$folder/tries/$job.$1"
  mapfile -t last < <(tail -n 3 "$folder/tries/$job.$1" | cut -d ' ' -f 3-)
  if [ -n "$at" ] && [ ${#last[@]} -eq 3 ] && [ "${last[0]}|${last[1]}" = "$at|$at" ]; then
    told stuck $site_failed "$at"
    return
  fi
  [ "$(wc -l <"$folder/tries/$job.$1")" -le "$2" ] && requeue
}

# How the last attempt ended: a word, an exit code, its seconds, and what it was at.
told() {
  printf '%s\n' "$1 $2 $SECONDS ${3:-}" >"$folder/ended/.$job" && mv -f "$folder/ended/.$job" "$folder/ended/$job"
}

# Ends the job: with 0 it is done, and never run again.
settle() {
  local code=$1
  exec 1>&2
  trap '' USR1
  [ -z "$watcher" ] || kill "$watcher" 2>/dev/null
  [ -z "$short" ] || rm -rf "$short"
  [ -z "$partial" ] || mv -f "$partial" "${partial%.part}"
  if [ "$code" -eq 0 ]; then
    printf '%s %s %s\n' "$(date +%s)" "$job_id" "$SECONDS" >"$folder/done/.$job" || exit $site_failed
    mv -f "$folder/done/.$job" "$folder/done/$job" || exit $site_failed
    [ -z "$place" ] || rm -rf "$place"
    rm -f "$(kept)"
    exit 0
  fi
  keep
  if [ "$stopped" = cancelled ]; then
    told cancelled 143
    exit 143
  fi
  if [ "$stopped" = time ]; then
    told time $site_failed
    again time $time_budget
    exit $site_failed
  fi
  if [ "$code" -eq 137 ] && [ "$(oom_kills)" != "$oom_before" ]; then
    code=$out_of_memory
  fi
  case $site_codes in
    *" $code "*)
      told site "$code"
      again site $site_budget
      exit $site_failed
      ;;
  esac
  told failed "$code"
  exit "$code"
}

#!/bin/bash
# Made by xpubuild plan. Submits the jobs of this folder that are neither done nor queued, so it can be run
# again at any time: after a failure, or when this host went away meanwhile.
folder=@folder@
. "$folder/lib/scheduler.sh"

cd "$folder" || exit 75
mkdir -p "done" ended ids logs results tries builds || exit 75
exec 9>builds/.submit.lock || exit 75
flock -n -E 9 9
if [ $? -eq 9 ]; then
  echo "submit: another submit runs in this folder" >&2
  exit 75
fi
if ! table=$(queued); then
  echo "submit: the scheduler does not answer, so nothing was submitted; run it again later" >&2
  exit 75
fi
declare -A queue=() state=() new=()
while read -r id word name; do
  [ -z "$name" ] || queue[$name]=$id state[$name]=$word
done <<<"$table"
status=0

submitted() {
  new[$1]=$2
  printf '%s\n' "$2" >"ids/.$1" && mv -f "ids/.$1" "ids/$1"
  printf 'submitted  %s  %s\n' "$2" "$1"
}

# job NAME [NEED | ~NEED]...: needs are done first; those with ~ have only ended.
job() {
  local name=$1 need id ok='' any='' stale=''
  shift
  if [ -e "done/$name" ]; then
    printf 'done       %s\n' "$name"
    return
  fi
  for need in "$@"; do
    [ ! -e "done/${need#\~}" ] || continue
    id=${new[${need#\~}]:-${queue[${need#\~}]:-}}
    case $need in
      \~*) any+=${id:+${any:+ }$id} ;;
      *)
        [ -z "${new[$need]:-}" ] || stale=1
        if [ -z "$id" ]; then
          printf 'submit: %s waits for %s, which was not submitted\n' "$name" "$need" >&2
          status=75
          return
        fi
        ok+=${ok:+ }$id
        ;;
    esac
  done
  if [ -n "${queue[$name]:-}" ]; then
    if [ -z "$stale" ]; then
      printf 'queued     %s  %s\n' "${queue[$name]}" "$name"
      return
    fi
    # It waits for an attempt that is gone, and would never start.
    withdraw "${queue[$name]}"
  fi
  rm -f "ended/$name" "tries/$name.site" "tries/$name.time"
  if id=$(put "$name" "$folder/jobs/$name.sh" "$(after "$ok" "$any")"); then
    submitted "$name" "$id"
  else
    status=75
  fi
}

# report NAME JOB...: tells what failed, where one of the jobs submitted now fails.
report() {
  local name=$1 other ids=() id
  shift
  for other in "$@"; do
    [ -z "${new[$other]:-}" ] || ids+=("${new[$other]}")
  done
  [ ${#ids[@]} -gt 0 ] || return 0
  # One that runs tells of the attempt before.
  case ${state[$name]:-} in
    PENDING | queued) withdraw "${queue[$name]}" ;;
  esac
  if id=$(put_for_failure "$name" "$folder/jobs/$name.sh" "${ids[@]}"); then
    submitted "$name" "${id##*$'\n'}"
  else
    status=75
  fi
}

@jobs@
exit $status

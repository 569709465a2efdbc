# What the scripts ask of PBS. Not tried on a real PBS.
job_id=${PBS_JOBID:-}

local_disk() {
  printf '%s' "${TMPDIR:-}"
}

# PBS has no signal before the limit: with a walltime, the job sends it to itself.
watch_the_time() {
  [ "${stop_after_s:-0}" -gt 0 ] || return 0
  (
    trap 'kill "$timer" 2>/dev/null' TERM
    sleep "$stop_after_s" &
    timer=$!
    wait "$timer" && kill -USR1 $$
  ) &
  watcher=$!
}

# Some sites leave qrerun to their operators; then the job ends, and "submit" goes on with it.
requeue() {
  qrerun "$job_id"
}

# Prints id, state and name of each job of this folder that is still there, by one query.
queued() {
  local known file id
  known=$(qselect -u "$(id -un)") || return
  for file in "$folder"/ids/*; do
    [ -e "$file" ] || continue
    read -r id <"$file"
    case $'\n'$known$'\n' in
      *$'\n'"$id"$'\n'*) printf '%s queued %s\n' "$id" "${file##*/}" ;;
    esac
  done
}

# Joins ids of jobs that must have succeeded ($1), and of those that must have ended ($2).
after() {
  local ok=${1// /:} any=${2// /:}
  printf '%s' "${ok:+afterok:$ok}${ok:+${any:+,}}${any:+afterany:$any}"
}

# Submits a job: name, script, what it waits for. Prints the id.
put() {
  qsub -j oe -o "$folder/logs/" ${3:+-W depend="$3"} "$2"
}

# The same for a job that runs if one of these ids fails: afternotok with several ids means all of them.
put_for_failure() {
  local script=$2 name=$1 id
  shift 2
  for id in "$@"; do
    put "$name" "$script" "afternotok:$id" || return
  done
}

withdraw() {
  qdel "$1"
}

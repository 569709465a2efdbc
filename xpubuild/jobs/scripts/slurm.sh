# What the scripts ask of Slurm.
job_id=${SLURM_JOB_ID:-}

local_disk() {
  printf '%s' "${SLURM_TMPDIR:-${TMPDIR:-}}"
}

# Slurm sends USR1 itself (--signal).
watch_the_time() {
  :
}

requeue() {
  scontrol requeue "$job_id"
}

# Prints id, state and name of each job of this user, by one query.
queued() {
  squeue --noheader --user="$(id -un)" --format='%i %T %j'
}

# Joins ids of jobs that must have succeeded ($1), and of those that must have ended ($2).
after() {
  local ok=${1// /:} any=${2// /:}
  printf '%s' "${ok:+afterok:$ok}${ok:+${any:+,}}${any:+afterany:$any}"
}

# Submits a job: name, script, what it waits for. Prints the id.
put() {
  local log=${folder//%/%%}/logs/$1.%j.log id
  id=$(sbatch --parsable --chdir="$folder" --output="$log" ${3:+--kill-on-invalid-dep=yes --dependency="$3"} "$2") || return
  printf '%s\n' "${id%%;*}"
}

# The same for a job that runs if one of these ids fails.
put_for_failure() {
  local script=$2 name=$1 any
  shift 2
  any=$(printf '?afternotok:%s' "$@")
  put "$name" "$script" "${any#\?}"
}

withdraw() {
  scancel "$1"
}

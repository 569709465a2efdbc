#!/usr/bin/env bash
# Source oneAPI environment scripts in a clean bash and print what the environment was before and after.
# Used by xpubuild (xpubuild/machine/oneapi_capture.py) and usable by hand: capture.sh --help.
#
# The scripts are sourced at the top level of this file, not inside a function: a `declare -x` in one of them
# would otherwise stay local to that function. Everything of our own begins with _xpubuild_.

_xpubuild_usage() {
  cat <<'HELP'
usage: capture.sh [options] SCRIPT...

Sources each SCRIPT in order (a component's env/vars.sh, or a whole setvars.sh or oneapi-vars.sh) and
writes a list of records, each ended by a NUL byte:

  #xpubuild-capture 1    format of the list
  #before                then NAME=VALUE for every variable before the first script
  #source SCRIPT         written before a script runs
  #status N              its status; missing where the script ended the shell
  #after                 then NAME=VALUE for every variable after the last script
  #complete              written last; a list without it must not be used

options:
  --fd N              write to descriptor N (default 1)
  --file FILE         write to FILE instead
  --argument ARG      hand ARG to the first script; may be repeated. Later scripts get no arguments
  --keep-environment  do not start over with an empty environment; the caller has done so already
  --help              show this text

Unless --keep-environment is given, only HOME, USER, TERM and the proxy variables are kept, and PATH is the
system's default. What the scripts print goes to standard error. The exit status is 0 when the list is
complete, whatever the scripts returned, and 2 where the command line is wrong.

example, in readable form:
  capture.sh /opt/intel/oneapi/compiler/2025.1/env/vars.sh | tr '\0' '\n'
HELP
}

_xpubuild_fail() {
  printf 'capture.sh: %s\n' "$1" >&2
  exit 2
}

_xpubuild_fd=1
_xpubuild_file=''
_xpubuild_keep=no
_xpubuild_arguments=()
_xpubuild_given=("$@")

while (($#)); do
  case $1 in
    --help) _xpubuild_usage; exit 0 ;;
    --fd | --file | --argument)
      (($# >= 2)) || _xpubuild_fail "$1 needs a value"
      case $1 in
        --fd) _xpubuild_fd=$2 ;;
        --file) _xpubuild_file=$2 ;;
        --argument) _xpubuild_arguments+=("$2") ;;
      esac
      shift 2 ;;
    --keep-environment) _xpubuild_keep=yes; shift ;;
    --) shift; break ;;
    -*) _xpubuild_fail "unknown option $1; see capture.sh --help" ;;
    *) break ;;
  esac
done
(($#)) || _xpubuild_fail 'no script given; see capture.sh --help'
[[ $_xpubuild_fd =~ ^[0-9]+$ ]] || _xpubuild_fail "--fd needs a number, not '$_xpubuild_fd'"

if [[ $_xpubuild_keep == no ]]; then
  # BASH_ENV and an exported SHELLOPTS act before the first line of a script, hence a second, clean bash.
  _xpubuild_clean=(HOME="${HOME:-/}" PATH="$(command -p getconf PATH)")
  for _xpubuild_name in USER TERM {HTTP,HTTPS,FTP,ALL,NO}_PROXY {http,https,ftp,all,no}_proxy; do
    if [[ -n ${!_xpubuild_name+set} ]]; then
      _xpubuild_clean+=("$_xpubuild_name=${!_xpubuild_name}")
    fi
  done
  exec env -i "${_xpubuild_clean[@]}" "$BASH" --noprofile --norc "${BASH_SOURCE[0]}" --keep-environment \
    "${_xpubuild_given[@]}"
fi

_xpubuild_scripts=()
for _xpubuild_script in "$@"; do
  # Without a slash `.` would search PATH.
  [[ $_xpubuild_script == /* ]] || _xpubuild_script=$PWD/$_xpubuild_script
  [[ -f $_xpubuild_script && -r $_xpubuild_script ]] || _xpubuild_fail "cannot read $_xpubuild_script"
  _xpubuild_scripts+=("$_xpubuild_script")
done

# A script may change PATH, so the program is found beforehand. An external one shows what a child really gets.
_xpubuild_env=$(type -P env) || _xpubuild_fail "the program 'env' is not on PATH"
_xpubuild_start=$PWD

if [[ -n $_xpubuild_file ]]; then
  exec {_xpubuild_out}>"$_xpubuild_file" || _xpubuild_fail "cannot write $_xpubuild_file"
else
  { exec {_xpubuild_out}>&"$_xpubuild_fd"; } 2>/dev/null \
    || _xpubuild_fail "descriptor $_xpubuild_fd is not open for writing"
fi
exec </dev/null 1>&2

_xpubuild_record() {
  printf '%s\0' "$1" >&"$_xpubuild_out"
}

# Each script meets the same shell: strict modes off, nothing inherited from the one before.
_xpubuild_neutral() {
  set +aefux +o pipefail +o posix
  IFS=$' \t\n'
  cd -- "$_xpubuild_start" || return
  # After `set -a` in a script our own variables would be exported too.
  export -n "${!_xpubuild_@}"
}

unset -v BASH_ENV ENV SETVARS_ARGS SETVARS_COMPLETED SETVARS_CALL SETVARS_CONFIG SETVARS_VARS_PATH
_xpubuild_neutral
_xpubuild_record '#xpubuild-capture 1'
_xpubuild_record '#before'
"$_xpubuild_env" -0 >&"$_xpubuild_out" || _xpubuild_fail 'the environment could not be printed'

for _xpubuild_script in "${_xpubuild_scripts[@]}"; do
  _xpubuild_record "#source $_xpubuild_script"
  trap 'printf "capture.sh: %s ended the shell; the list is not complete\n" "$_xpubuild_script" >&2' EXIT
  # A script that is sourced without arguments would see ours.
  set --
  if ((${#_xpubuild_arguments[@]})); then
    # shellcheck source=/dev/null
    . "$_xpubuild_script" "${_xpubuild_arguments[@]}"
  else
    # shellcheck source=/dev/null
    . "$_xpubuild_script"
  fi
  _xpubuild_status=$?
  _xpubuild_arguments=()
  _xpubuild_neutral
  _xpubuild_record "#status $_xpubuild_status"
done
trap - EXIT

_xpubuild_record '#after'
"$_xpubuild_env" -0 >&"$_xpubuild_out" || _xpubuild_fail 'the environment could not be printed'
_xpubuild_record '#complete'
exit 0

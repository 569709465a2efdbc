# Enter a workspace that xpubuild has built. For bash; source this file, do not run it:
#   . activate.sh --workspace DIR
# Without --workspace the default workspace is entered. xpubuild_deactivate restores what was before.
# shellcheck shell=bash

if [ -z "${BASH_VERSION:-}" ]; then
  printf '%s\n' 'activate.sh is for bash (activate.fish is for fish).' \
    "In another Bourne shell: eval \"\$(xpubuild env --shell bash --workspace DIR)\"" >&2
  # shellcheck disable=SC2317
  return 2 2>/dev/null || exit 2
fi
if ! (return 0 2>/dev/null); then
  printf '%s\n' 'activate.sh changes the shell it is sourced by; run on its own it could change nothing.' \
    "Type: . ${BASH_SOURCE[0]@Q} --workspace DIR" >&2
  exit 2
fi

# Prints the program to ask: the one this file was installed with, else the one on PATH.
_xpubuild_program() {
  local here=${BASH_SOURCE[0]%/*} candidate
  [[ $here != "${BASH_SOURCE[0]}" ]] || here=.
  for candidate in "$here/../../../../../../bin/xpubuild" "$here/../../.venv/bin/xpubuild" "$(type -P xpubuild)"; do
    if [[ -n $candidate && -f $candidate && -x $candidate ]]; then
      printf '%s' "$candidate"
      return 0
    fi
  done
  printf '%s\n' 'activate.sh: xpubuild was not found; put the folder of its program on PATH' >&2
  return 1
}

# Adds to _xpubuild_restore the line that brings variable $1 back to what it is now.
_xpubuild_remember() {
  local name=$1 quoted
  if [[ -z ${!name+set} ]]; then
    _xpubuild_restore+="unset -v $name"$'\n'
    return 0
  fi
  printf -v quoted '%q' "${!name}"
  if [[ $(declare -p "$name") == 'declare -'*([^ ])x* ]]; then
    _xpubuild_restore+="export $name=$quoted"$'\n'
  else
    # It was there without being exported: exporting it on the way out would be a change.
    _xpubuild_restore+="$name=$quoted; export -n $name"$'\n'
  fi
}

_xpubuild_activate() {
  local _xpubuild_program_path _xpubuild_text _xpubuild_line _xpubuild_options=() _xpubuild_ignored=no
  while (($#)); do
    case $1 in
      --workspace) _xpubuild_options=(--workspace "${2-}"); shift $(($# > 1 ? 2 : 1)) ;;
      --workspace=*) _xpubuild_options=(--workspace "${1#--workspace=}"); shift ;;
      *) _xpubuild_ignored=yes; shift ;;
    esac
  done
  if [[ $_xpubuild_ignored == yes ]]; then
    # Sourced without arguments this file sees those of the calling script, so they cannot be trusted.
    printf '%s\n' 'activate.sh: arguments other than --workspace DIR are ignored' >&2
  fi
  _xpubuild_program_path=$(_xpubuild_program) || return 1
  # In the child shell of $( ) an earlier activation is undone first: the answer must not build on itself.
  _xpubuild_text=$(
    if declare -F xpubuild_deactivate >/dev/null; then xpubuild_deactivate; fi
    "$_xpubuild_program_path" env --shell bash ${_xpubuild_options[@]+"${_xpubuild_options[@]}"}
  ) || {
    printf '%s\n' 'activate.sh: nothing was changed' >&2
    return 1
  }
  if declare -F xpubuild_deactivate >/dev/null; then
    xpubuild_deactivate
  fi
  _xpubuild_restore=''
  while IFS= read -r _xpubuild_line; do
    # A line inside a value of several lines may look like this too; remembering one variable more does no harm.
    if [[ $_xpubuild_line =~ ^(export|unset)\ ([A-Za-z_][A-Za-z0-9_]*)(=|$) ]]; then
      _xpubuild_remember "${BASH_REMATCH[2]}"
    fi
  done <<<"$_xpubuild_text"
  eval "$_xpubuild_text"
  xpubuild_deactivate() {
    eval "$_xpubuild_restore"
    unset -v _xpubuild_restore
    unset -f xpubuild_deactivate
  }
}

if _xpubuild_activate "$@"; then
  unset -f _xpubuild_activate _xpubuild_program _xpubuild_remember
else
  unset -f _xpubuild_activate _xpubuild_program _xpubuild_remember
  return 1
fi

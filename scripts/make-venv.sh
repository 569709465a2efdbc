#!/bin/sh
# make-venv.sh PYTHON FOLDER: make a virtual environment, or say what to install so that it can be made.
set -eu
python=$1
folder=$2

say() { printf '%s\n' "$*" >&2; }

fail() {
  say "$1"
  say "Install it, then run the same command again:"
  say "  Debian, Ubuntu          sudo apt-get install python3 python3-venv"
  say "  Fedora                  sudo dnf install python3"
  say "  RHEL, Rocky, AlmaLinux  sudo dnf install python3.11    then add PYTHON=python3.11 to the make command"
  say "  openSUSE, SLES          sudo zypper install python311  then add PYTHON=python3.11 to the make command"
  say "  Arch                    sudo pacman -S python"
  say "Where you may not install packages, name any Python 3.10 or newer: make PYTHON=/path/to/python3 ..."
  exit 1
}

command -v "$python" >/dev/null 2>&1 || fail "There is no '$python' on PATH; xpubuild needs Python 3.10 or newer."
version=$("$python" --version 2>&1)
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
  || fail "'$python' is $version; xpubuild needs Python 3.10 or newer."

rm -rf -- "$folder"
# Debian and Ubuntu ship Python without ensurepip; venv alone would leave a folder without pip.
if "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
  "$python" -m venv -- "$folder"
elif "$python" -c 'import virtualenv' >/dev/null 2>&1; then
  "$python" -m virtualenv --quiet -- "$folder"
else
  fail "'$python' ($version) cannot make virtual environments: its module venv or ensurepip is missing."
fi
# Written last, so that an interrupted run is not taken for a finished one.
touch -- "$folder/.made"

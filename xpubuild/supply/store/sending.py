"""Puts a file into a store on another machine over ssh, by the rules of ``store.folder``.

The server needs a POSIX shell with ``cat``, ``wc``, ``ln`` and ``mkdir``. With ``sha256sum`` there every byte
is hashed on the server too; without, the size is compared, and whoever takes the file hashes it.
"""

from __future__ import annotations

import os
import secrets
import shlex
from pathlib import PurePosixPath
from typing import BinaryIO

from xpubuild.engine.environment import base_environment
from xpubuild.engine.piped import piped
from xpubuild.engine.temporary import DRAFT
from xpubuild.errors import FetchError, SourceIntegrityError, ToolchainError, XpuBuildError
from xpubuild.supply.mirror.entries import FileRecord
from xpubuild.supply.mirror.remote.failures import unreachable
from xpubuild.supply.mirror.remote.location import Location
from xpubuild.supply.mirror.remote.ssh import CONNECTION_FAILED, ssh_command

#: Arguments: the folder of the store, the file's folder in it, its name, its draft's name, size and sha256.
#: The draft is linked to the name, which fails where that is taken; folders take the store's permissions.
_PUT = r"""
root=$1 folder=$2 name=$3 draft=$4 size=$5 sha=$6
right() {
  [ ! -h "$1" ] && [ -f "$1" ] && [ "$(wc -c <"$1")" -eq "$size" ] || return 1
  ! command -v sha256sum >/dev/null || [ "$(sha256sum <"$1" | cut -c1-64)" = "$sha" ]
}
umask 022
cd "$root" || exit 1
for d in "$(dirname "$folder")" "$folder"; do
  if [ -h "$d" ]; then echo link; exit; fi
  if [ ! -d "$d" ]; then mkdir "$d" || exit 1; chmod "$(stat -c %a .)" "$d" 2>/dev/null; fi
done
cd "$folder" || exit 1
if [ ! -e "$name" ] && [ ! -h "$name" ]; then
  trap 'rm -f "$draft"' EXIT
  trap 'exit 1' HUP INT TERM PIPE
  set -C
  cat >"$draft" || exit 1
  if ! right "$draft"; then echo short; exit; fi
  chmod 644 "$draft"
  sync "$draft" 2>/dev/null || sync
  if ln "$draft" "$name" 2>/dev/null; then echo kept; exit; fi
fi
if right "$name"; then echo there; else echo other; fi
"""
_LONGEST_ANSWER = 16


def send(location: Location, record: FileRecord, content: BinaryIO | bytes) -> bool:
    """Put a file into the store at ``location``; return whether its name holds this content now.

    False: something else has the name, and stays.

    Raises:
        FetchError: the server does not answer, or the file did not arrive whole.
        SourceIntegrityError: a folder of the store is a link.
        ToolchainError: the server does not let this user write there.
        UsageError: GIT_SSH_COMMAND is no command line.
        InterruptedByUserError.
    """
    place = PurePosixPath(record.path)
    words = [location.path, str(place.parent), place.name, f"{DRAFT}{secrets.token_hex(8)}",
             str(record.size), record.sha256]  # fmt: skip
    script = shlex.join(["sh", "-c", _PUT, "sh", *words])
    argv = [*ssh_command(location, os.environ), f"exec {script}"]
    with piped(argv, env=base_environment(), stdin=content) as command:
        answer = command.read(_LONGEST_ANSWER).decode("ascii", "replace").strip()
    if command.returncode == CONNECTION_FAILED or command.returncode < 0:
        raise unreachable(location, _last(command.errors) or f"ssh exited with code {command.returncode}")
    if answer in ("kept", "there", "other"):
        return answer != "other"
    raise _refused(location, record, answer, _last(command.errors))


def _last(text: str) -> str:
    return "; ".join(text.splitlines()[-3:])


def _refused(location: Location, record: FileRecord, answer: str, said: str) -> XpuBuildError:
    what = f"{record.path} was not put into the store {location}"
    if answer == "link":
        return SourceIntegrityError(
            what,
            why="a folder of it is a link, and nothing is written through a link",
            fix="remove the link on the server",
        )
    if answer == "short":
        return FetchError(what, why="it did not arrive whole", fix="run the same command again")
    return ToolchainError(
        what,
        why=said or f"the server answered {answer!r}",
        fix="make the folder of the store on the server, and let this user write there",
    )

"""A mirror on another machine, read over ssh: a shell on the server gives the requested files, one by one.

The server needs a POSIX shell with ``cat`` and ``wc``. ssh is the one that git would start
(``GIT_SSH_COMMAND``, ``GIT_SSH``; git-config(1), core.sshCommand), so what a user has set up for git is good
here too.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.engine.piped import Piped, piped
from xpubuild.engine.process import Cancel
from xpubuild.errors import UsageError
from xpubuild.supply.index.threads import stopped
from xpubuild.supply.mirror.entries import FileRecord
from xpubuild.supply.mirror.index import MOST_BYTES
from xpubuild.supply.mirror.remote.failures import damaged_there, not_brought, unreachable
from xpubuild.supply.mirror.remote.location import Location
from xpubuild.supply.mirror.remote.transport import Count, keep

_CHUNK = 1 << 16
CONNECTION_FAILED = 255  # ssh(1): "255 if an error occurred"
# Nothing may ask, and a connection that is dead must end: a minute of silence.
_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15",
            "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")  # fmt: skip
#: For each name of its input: a line with the size and then the bytes, or a line that says why not.
_GIVE = (
    'while IFS= read -r f; do if [ -h "$f" ]; then echo link; elif [ -f "$f" ] && n=$(wc -c <"$f"); '
    'then echo $n; cat "$f"; else echo none; fi; done'
)
_LINK, _NONE = b"link\n", b"none\n"
_LONGEST_LINE = 24

#: Reads so many bytes of a file, exactly.
_Content = Callable[[int], bytes]


def ssh_command(location: Location, environ: Mapping[str, str]) -> list[str]:
    """Return the words that run a command on the host of ``location``.

    Raises:
        UsageError: GIT_SSH_COMMAND is not a valid command line.
    """
    given = environ.get("GIT_SSH_COMMAND", "")
    try:
        words = shlex.split(given) or [environ.get("GIT_SSH") or "ssh"]
    except ValueError as error:
        raise UsageError(
            "GIT_SSH_COMMAND is not a valid command line", why=str(error), fix="correct the variable"
        ) from error
    port = ["-p", str(location.port)] if location.port else []
    target = f"{location.user}@{location.host}" if location.user else location.host
    return [*words, *_OPTIONS, *port, target]


class SshRemote:
    """The mirror at ``location``; ``environ`` says which ssh is meant."""

    def __init__(self, location: Location, environ: Mapping[str, str], cancel: Cancel | None = None) -> None:
        self.location = location
        # A shell of its own: the user's on the far side may be fish or csh.
        script = f"cd {shlex.quote(location.path)} && {_GIVE}"
        self._argv = [*ssh_command(location, environ), f"exec sh -c {shlex.quote(script)}"]
        self._cancel = cancel

    def read(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the content of small files by path; what is not there is left out."""
        found: dict[str, bytes] = {}

        def take(path: str, size: int, content: _Content) -> None:
            if size > MOST_BYTES:
                raise not_brought(self.location, path, f"it has {size} bytes")
            found[path] = content(size)

        if paths:
            self._ask(paths, take)
        return found

    def bring(self, records: Sequence[FileRecord], into: Path, count: Count) -> None:
        """Bring each file as ``into/<sha256>``, every byte of it verified; one connection for all."""
        left = {record.path: record for record in records}

        def take(path: str, size: int, content: _Content) -> None:
            unread = size

            def chunk() -> bytes:
                nonlocal unread
                data = content(min(_CHUNK, unread))
                unread -= len(data)
                return data

            keep(self.location, left[path], into, chunk, count)
            del left[path]

        if records:
            self._ask(list(left), take)
        for path in left:
            raise not_brought(self.location, path, "the server does not have it")

    def _ask(self, paths: Sequence[str], take: Callable[[str, int, _Content], None]) -> None:
        """Ask for files in one go, and take each that is there with its size and what reads its content."""
        names = b"".join(os.fsencode(path) + b"\n" for path in paths)
        left, begun = list(reversed(paths)), False
        with piped(self._argv, env=base_environment(), stdin=names, cancel=self._cancel) as command:

            def content(size: int) -> bytes:
                data = command.read(size)
                if len(data) < size:
                    raise EOFError
                return data

            try:
                while left:
                    size, begun = self._size(command, left[-1]), True
                    if size is not None:
                        take(left[-1], size, content)
                    left.pop()
            except EOFError:
                pass  # why, ssh says at its end
        if self._cancel or command.stopped:
            raise stopped()
        if left:
            self._require_ended(command, left[-1], begun=begun)

    def _size(self, command: Piped, path: str) -> int | None:
        """Read the line before a file: its size, or None where the server does not have it."""
        line = b""
        while not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
            letter = command.read(1)
            if not letter:
                raise EOFError
            line += letter
        if line == _LINK:
            raise damaged_there(self.location, path, "it is not a regular file")
        if line != _NONE and not line[:-1].isdigit():
            why = f"it answers {line!r}: does a start-up file of the shell on the server print something?"
            raise not_brought(self.location, path, why)
        return None if line == _NONE else int(line)

    def _require_ended(self, command: Piped, path: str, *, begun: bool) -> None:
        """Raise what kept the server from its work; a folder that is not there is none of it."""
        said = command.errors or f"ssh exited with code {command.returncode}"
        last = "; ".join(said.splitlines()[-3:])
        if command.returncode == CONNECTION_FAILED or command.returncode < 0:
            raise unreachable(self.location, last)
        if begun:
            raise not_brought(self.location, path, f"the answer ended early: {last}")

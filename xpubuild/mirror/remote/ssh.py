"""A mirror on another machine, read over ssh: tar on the server packs the requested files.

The server needs a POSIX shell and a tar that takes names from its input (``-T -``: GNU, BSD and BusyBox
do). ssh is the one that git would start (``GIT_SSH_COMMAND``, ``GIT_SSH``; git-config(1), core.sshCommand),
so what a user has set up for git is good here too.
"""

from __future__ import annotations

import os
import shlex
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, cast

from xpubuild.engine.environment import base_environment
from xpubuild.engine.piped import Piped, piped
from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError, UsageError
from xpubuild.mirror.entries import FileRecord
from xpubuild.mirror.remote.failures import damaged_there, not_brought, unreachable
from xpubuild.mirror.remote.location import Location
from xpubuild.mirror.remote.transport import MOST_BYTES, Count, keep
from xpubuild.packages.index.threads import stopped

_CHUNK = 1 << 16
_CONNECTION_FAILED = 255  # ssh(1): "255 if an error occurred"
_NOT_FOUND = 127  # of a POSIX shell
# Nothing may ask, and a connection that is dead must end: a minute of silence.
_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15",
            "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")  # fmt: skip

_Take = Callable[[str, tarfile.TarInfo, IO[bytes]], None]


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
        tar = f"exec tar -cf - -C {shlex.quote(location.path)} -T -"
        # A shell of its own: the user's on the far side may be fish or csh.
        self._argv = [*ssh_command(location, environ), f"exec sh -c {shlex.quote(tar)}"]
        self._cancel = cancel

    def read(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the content of small files by path; what is not there is left out."""
        found: dict[str, bytes] = {}

        def take(path: str, info: tarfile.TarInfo, stream: IO[bytes]) -> None:
            if info.size > MOST_BYTES:
                raise not_brought(self.location, path, f"it has {info.size} bytes")
            found[path] = stream.read()

        left = list(paths)
        while left:
            came = self._batch(left, take)
            left = [path for path in left if path not in found]
            if not came:
                break
        return found

    def bring(self, records: Sequence[FileRecord], into: Path, count: Count) -> None:
        """Bring each file as ``into/<sha256>``, every byte of it verified; one connection for all."""
        left = {record.path: record for record in records}

        def take(path: str, info: tarfile.TarInfo, stream: IO[bytes]) -> None:  # noqa: ARG001
            keep(self.location, left[path], into, lambda: stream.read(_CHUNK), count)
            del left[path]

        while left:
            # Of two names of one file tar sends the second as a link to the first: it is asked for again.
            before = list(left)
            came = self._batch(before, take)
            if not came:
                raise not_brought(self.location, before[0], "the server does not have it as a file")

    def _batch(self, paths: Sequence[str], take: _Take) -> int:
        """Ask for files in one go; return how many came."""
        names = b"".join(os.fsencode(path) + b"\n" for path in paths)
        came, broken = 0, ""
        with piped(self._argv, env=base_environment(), stdin=names, cancel=self._cancel) as command:
            try:
                came = self._unpack(command, set(paths), take)
            except tarfile.TarError as error:
                broken = str(error)
        if self._cancel or command.stopped:
            raise stopped()
        self._require_ended(command, broken, paths[0])
        return came

    def _unpack(self, command: Piped, wanted: set[str], take: _Take) -> int:
        came = 0
        # A pipe cannot be sought in, and the stream mode does not: read() is all that it calls.
        with tarfile.open(fileobj=cast("IO[bytes]", command), mode="r|") as archive:
            for info in archive:
                name = info.name.removeprefix("./")
                if name not in wanted:
                    raise damaged_there(self.location, _shown(name), "the server sent it without a request")
                if info.islnk():
                    continue
                stream = archive.extractfile(info) if info.isreg() else None
                if stream is None:
                    raise damaged_there(self.location, _shown(name), "it is not a regular file")
                wanted.discard(name)
                take(name, info, stream)
                came += 1
        return came

    def _require_ended(self, command: Piped, broken: str, path: str) -> None:
        """Raise what kept tar from its work; a name that is not there is none of it."""
        said = command.errors or f"ssh exited with code {command.returncode}"
        last = "; ".join(said.splitlines()[-3:])
        if command.returncode == _CONNECTION_FAILED:
            raise unreachable(self.location, last)
        if command.returncode == _NOT_FOUND:
            raise self._other_side(path, f"tar does not run on the server: {last}")
        if broken and command.returncode == 0:
            raise self._other_side(path, (
                f"the answer is not an archive ({broken}): does a start-up file of the shell on the server "
                "print something?"
            ))  # fmt: skip
        if broken and command.returncode < 0:
            raise unreachable(self.location, last)

    def _other_side(self, path: str, why: str) -> FetchError:
        return not_brought(self.location, path, why)


def _shown(name: str) -> str:
    return name.encode("unicode_escape", "backslashreplace").decode("ascii")[:200]

"""A command whose standard output is read as it comes: bytes, of any number, none of them kept.

It runs as every other command does, supervised and without a terminal; here the reader sets the pace.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from xpubuild.engine.child import TICK_S, Child, in_memory, prepare, running, spawn
from xpubuild.engine.redact import Redactor
from xpubuild.engine.watch import Cancel, Watch

_CHUNK = 1 << 16
_KEPT_ERRORS = 8192


class Piped:
    """A running command. ``read`` gives its output; after the block, ``returncode`` says how it ended."""

    def __init__(self, child: Child, watch: Watch, redact: Redactor) -> None:
        self.returncode = -signal.SIGKILL
        self._child, self._watch, self._redact = child, watch, redact
        self._data, self._errors = bytearray(), b""
        self._selector = selectors.DefaultSelector()
        for stream in (child.process.stdout, child.process.stderr):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream, selectors.EVENT_READ, stream is child.process.stderr)

    @property
    def stopped(self) -> bool:
        """Whether the caller's ``cancel`` ended the command."""
        return self._watch.cancelled

    @property
    def errors(self) -> str:
        """The end of what it wrote to standard error, without secrets."""
        return self._redact(self._errors.decode("utf-8", "replace")).strip()

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes of its output, fewer only at the end."""
        while len(self._data) < size and self._more():
            pass
        found = bytes(self._data[:size])
        del self._data[:size]
        return found

    def _more(self) -> bool:
        """Take what is there; return whether more may come."""
        if not self._selector.get_map():
            return False
        ended = self._child.ended()
        ready = self._selector.select(0 if ended else TICK_S)
        for key, _ in ready:
            data = os.read(key.fd, _CHUNK)
            if not data:
                self._selector.unregister(key.fileobj)
            elif key.data:
                self._errors = (self._errors + data)[-_KEPT_ERRORS:]
            else:
                self._data += data
        self._watch.tick()
        # The supervisor is gone, and somebody it could not end still holds the pipe.
        return bool(ready) or not ended

    def drain(self) -> None:
        """Read what is left, and drop it."""
        while self.read(_CHUNK):
            pass

    def close(self) -> None:
        """Free the selector."""
        self._selector.close()


@contextlib.contextmanager
def piped(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: bytes | BinaryIO = b"",
    cancel: Cancel | None = None,
) -> Iterator[Piped]:
    """Run a command while the block lasts, with ``stdin`` as its input; where the block fails, it is ended.

    ``stdin`` is bytes or an open file, ``env`` the whole environment. The exit status is no exception.

    Raises:
        ToolchainError: the program is not there, or cannot be started.
    """
    full = prepare(argv, env)
    with in_memory(stdin) if isinstance(stdin, bytes) else contextlib.nullcontext(stdin.fileno()) as given:
        child = spawn(full, env=env, stdin=given)
    command = Piped(child, Watch(child, None, cancel), Redactor.from_environment(env))
    with contextlib.closing(command):
        with running(child):
            yield command
            command.drain()
        child.require_started(command.errors.splitlines())
    command.returncode = child.returncode

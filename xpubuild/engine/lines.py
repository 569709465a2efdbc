"""Splits the output of a command into lines without secrets: for its log, a listener and the tail."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO

from xpubuild.engine.redact import Redactor

_TAIL_LINES = 200
_LONGEST_LINE = 65536
# Kept back where a line is cut: a secret that has not been read to its end must not be cut in two.
_OVERLAP = 4096
# pip counts bytes this way (--progress-bar raw), hundreds of lines a wheel: for the listener, not the log.
PASSING = re.compile(r"Progress ([0-9]{1,15}) of ([0-9]{1,15})")


def passing(line: str) -> bool:
    """Whether a line only counts bytes: the listener gets it, the log does not."""
    return PASSING.fullmatch(line.strip()) is not None


@dataclass
class LineReader:
    """Cuts bytes into lines at newlines and carriage returns, and keeps the last ones."""

    log: IO[bytes] | None
    on_line: Callable[[str], None] | None
    redact: Redactor
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_LINES))
    _rest: str = ""
    _after_return: bool = False
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        text = self._decoder.decode(data)
        if self._after_return and text.startswith("\n"):
            text = text[1:]
        if data:
            self._after_return = data.endswith(b"\r")
        *lines, self._rest = (self._rest + text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in lines:
            self._line(line)
        if len(self._rest) > _LONGEST_LINE:
            self._cut()
        if self.log is not None:
            # So that the log tells the truth to `tail -f`, and after a SIGKILL of xpubuild.
            self.log.flush()

    def finish(self) -> None:
        """Take what follows the last newline."""
        self._rest += self._decoder.decode(b"", final=True)
        if self._rest:
            self._line(self._rest)
            self._rest = ""

    def _cut(self) -> None:
        self._rest = self.redact(self._rest)
        if len(self._rest) > _LONGEST_LINE:
            self._line(self._rest[:-_OVERLAP])
            self._rest = self._rest[-_OVERLAP:]

    def _line(self, raw: str) -> None:
        text = self.redact(raw)
        if not passing(text):
            self.tail.append(text)
            if self.log is not None:
                self.log.write(text.encode() + b"\n")
        if self.on_line is not None:
            self.on_line(text)

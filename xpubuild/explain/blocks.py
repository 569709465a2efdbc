"""Splits a stream of bytes into blocks of complete lines, in constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from xpubuild.explain.normalise import LONGEST, without_escapes

_SIZE = 1 << 18
_KEEP = 2 * LONGEST
_LINES = re.compile(rb"[^\r\n]*[\r\n]|[^\r\n]+")


class Reader(Protocol):
    """A binary file or pipe."""

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes, none at the end."""
        ...


def blocks(stream: Reader, size: int = _SIZE) -> Iterator[bytes]:
    """Yield blocks of whole lines without colours; ``\\r\\n`` becomes ``\\n``, a lone ``\\r`` stays.

    A line of more than ``size`` bytes is cut, by a ``\\r`` so that lines are counted right.
    """
    rest = b""
    while data := stream.read(size):
        whole, end, rest = _split(rest + data)
        if end:
            yield _clean(whole)
        while len(rest) > size:
            yield _clean(rest[:size] + b"\r")
            rest = rest[size:]
    if rest:
        yield _clean(rest + b"\n")


def _split(data: bytes) -> tuple[bytes, bool, bytes]:
    # A \r at the very end may be the first half of \r\n.
    end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1
    if data.endswith(b"\r") and end and data[end - 1 : end] == b"\r" and not data[end:].strip(b"\r"):
        end = len(data.rstrip(b"\r"))
    return data[:end], end > 0, data[end:]


def _clean(data: bytes) -> bytes:
    data = without_escapes(data)
    while b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    if max(map(len, data.split(b"\n"))) > 2 * _KEEP:
        # Patterns see beginning and end of a line; dozens of such lines would be kept and copied in between.
        data = b"".join(map(_shortened, _LINES.findall(data)))
    return data


def _shortened(line: bytes) -> bytes:
    return line if len(line) <= 2 * _KEEP else line[:_KEEP] + b" ... " + line[-_KEEP:]

"""Reads what somebody else may have written: bounded in size, in depth and in its numbers.

Limits are far above what any tool writes and far below what makes a machine stop. ``safe_yaml`` reads YAML by
the same limits.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any, NoReturn

#: Numbers beyond these are no size, count, time or version of anything; arithmetic with them overflows.
LARGEST = 1 << 63
_MOST_DIGITS = 20
#: A lock of PyTorch has some 200 kB, a conda-lock.yml for several platforms a few MB.
MOST_BYTES = 16 << 20
#: The largest recipe of xpubuild has 15 kB.
MOST_RECIPE_BYTES = 1 << 20
#: Control characters, ends of lines, what turns the direction of a line, and what is no UTF-8.
NOT_ON_ONE_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class UntrustedError(ValueError):
    """The text is not fit to be read; the message says why."""


def on_one_line(text: str) -> str:
    """Return a text for a comment or a label, in which nothing can begin another line."""
    return NOT_ON_ONE_LINE.sub(" ", text)


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a file; a pipe or a device may be endless too.

    Raises:
        UntrustedError: it is larger than ``most`` bytes.
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        status = os.fstat(stream.fileno())
        size = status.st_size if stat.S_ISREG(status.st_mode) else 0
        data = stream.read(most + 1) if size <= most else b""
    if size > most or len(data) > most:
        raise UntrustedError(f"it is larger than {described(most)}, which no such file is")
    return data


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the content of a UTF-8 file.

    Raises:
        UntrustedError: it is larger than ``most`` bytes.
        OSError, UnicodeDecodeError: it cannot be read.
    """
    return read_bytes(path, most).decode("utf-8")


def described(size: int) -> str:
    """Return a limit as a person says it."""
    for unit, bits in (("GiB", 30), ("MiB", 20), ("kiB", 10)):
        if size >= 1 << bits:
            return f"{size / (1 << bits):g} {unit}"
    return f"{size} bytes"


def checked_number(value: float) -> float:
    """Return a number that can be counted with.

    Raises:
        UntrustedError: it is infinite, not a number, or out of range.
    """
    if not -LARGEST <= value <= LARGEST:  # also false for NaN
        raise UntrustedError("a number is out of range")
    return value


def json_value(text: str | bytes) -> Any:
    """Return the value of a JSON text as the standard has it: no NaN, no infinity; numbers in range.

    Raises:
        ValueError: it is not such a text.
    """
    try:
        return json.loads(text, parse_constant=_no_number, parse_float=_float, parse_int=_integer)
    except RecursionError:
        raise UntrustedError("it is nested too deeply") from None


def _no_number(text: str) -> NoReturn:
    raise UntrustedError(f"{text} is not a number of JSON")


def _float(text: str) -> float:
    return checked_number(float(text))


def _integer(text: str) -> int:
    # Python itself refuses some thousand digits, since they take quadratic time.
    if len(text) > _MOST_DIGITS:
        raise UntrustedError("a number is out of range")
    return int(checked_number(int(text)))

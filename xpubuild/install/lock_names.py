"""Whether a file is a lock, by its first lines; imports none of the modules that read one."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

_LOCK_LINE = ("schema: xpubuild.lock/", 'schema: "xpubuild.lock/')
_HEAD_LINES = 20


def is_lock(argument: str) -> bool:
    """Whether an argument is the file of a lock, valid or not."""
    try:
        with Path(argument).open("r", encoding="utf-8") as stream:
            return any(line.startswith(_LOCK_LINE) for line in islice(stream, _HEAD_LINES))
    except (OSError, UnicodeDecodeError):
        return False

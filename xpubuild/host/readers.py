"""Small readers of /proc, /sys and /etc that answer None instead of raising."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

#: What a text fact says when it could not be read; numbers and yes/no facts are None (null in JSON) then.
UNKNOWN = "unknown"
LIVE_ROOT = Path("/")


def read_text(path: Path) -> str | None:
    """Return a file's text without surrounding space, or None where it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None


def read_int(path: Path, base: int = 10) -> int | None:
    """Return the whole number in a file, or None; sysfs writes some with a 0x prefix (base 16)."""
    text = read_text(path)
    if text is None:
        return None
    try:
        return int(text, base)
    except ValueError:
        return None


def link_name(path: Path) -> str | None:
    """Return the last part of what a symbolic link points to, or None where there is none."""
    try:
        return path.readlink().name
    except OSError:
        return None


def entries(folder: Path) -> list[Path]:
    """Return the sorted entries of a folder; none where it cannot be listed."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def exists(path: Path) -> bool:
    """Whether a path is there; one that may not be looked at counts as missing."""
    try:
        return path.exists()
    except OSError:
        return False


def plain(value: Any) -> Any:
    """Return dataclasses, tuples and paths as the dicts, lists and strings that JSON knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value

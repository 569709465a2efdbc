"""Paths and search lists of the inspected system, which may be an unpacked image."""

from __future__ import annotations

import os
from pathlib import Path

from xpubuild.doctor.context import CheckContext


def inside(context: CheckContext, path: Path | str) -> Path:
    """Return the place of a path of the inspected system on this one; a path below its root is unchanged."""
    place = Path(path)
    if context.live or place.is_relative_to(context.root):
        return place
    return context.path(str(place))


def shown(context: CheckContext, path: Path) -> str:
    """Return a path as it is called inside the inspected system."""
    if not context.live and path.is_relative_to(context.root):
        return "/" + str(path.relative_to(context.root))
    return str(path)


def home(context: CheckContext) -> Path | None:
    """Return the home folder of the caller, or None if the environment has none."""
    value = context.environ.get("HOME", "")
    return inside(context, value) if value.startswith("/") else None


def listed(context: CheckContext, variable: str) -> tuple[Path, ...]:
    """Return the absolute entries of a search list such as LD_LIBRARY_PATH, each once, in order."""
    entries = context.environ.get(variable, "").split(os.pathsep)
    return tuple(dict.fromkeys(inside(context, entry) for entry in entries if entry.startswith("/")))


def real(path: Path) -> Path:
    """Return a path without links, as far as it exists."""
    return Path(os.path.realpath(path))


def same(one: Path, other: Path) -> bool:
    """Whether two paths are one file, links followed; False where either is missing."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def plural(count: int, word: str) -> str:
    """Return a count and its word: 1 file, 2 files."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"

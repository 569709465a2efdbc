"""Reads files of a source tree safely.

A tree may come from anywhere: a pin file can be a pipe that never ends, or a link to a file of this machine.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from packaging.version import InvalidVersion, Version

from xpubuild.frozen import frozen

MOST_BYTES = 1 << 20
_GIT_TAG = re.compile(r"\bGIT_TAG\s+\"?([\w./-]+)\"?\s")


@frozen
class FileText:
    """The text of a file; ``problem`` says why it cannot be read. Both are None where there is none."""

    text: str | None = None
    problem: str | None = None

    def word(self) -> str | None:
        """Return the first word; None where there is none."""
        return next(iter((self.text or "").split()), None)


def read_text(tree: Path, name: str) -> FileText:
    """Read a regular file of a tree: UTF-8, not larger than 1 MiB, and inside the tree after its links."""
    path = tree / name
    try:
        top, place = tree.resolve(), path.resolve(strict=True)
        if not place.is_relative_to(top):
            return FileText(problem="it is outside the tree")
        return _read(place)
    except (FileNotFoundError, NotADirectoryError):
        return FileText(problem="it is a broken link") if path.is_symlink() else FileText()
    except RuntimeError:
        # What resolve() makes of a loop of links before Python 3.13.
        return FileText(problem="it is a link to itself")
    except OSError as error:
        return FileText(problem=error.strerror or str(error))
    except ValueError:
        return FileText(problem="its name is not a valid file name")


def _read(place: Path) -> FileText:
    if not stat.S_ISREG(place.stat().st_mode):
        return FileText(problem="it is a folder" if place.is_dir() else "it is not a regular file")
    # Opened so that a pipe put there meanwhile does not hold us up; what is open is looked at once more.
    descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return FileText(problem="it is not a regular file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        return FileText(problem="it is larger than 1 MiB")
    try:
        return FileText(text=data.decode("utf-8"))
    except UnicodeDecodeError as error:
        return FileText(problem=f"it is not UTF-8 (byte {error.start})")


def pinned_by(text: str) -> str | None:
    """Return the commit or tag that a pin file names: its only word, or the one GIT_TAG of a CMake file."""
    words = text.split()
    if len(words) == 1:
        return words[0]
    tags = set(_GIT_TAG.findall(text))
    return tags.pop() if len(tags) == 1 else None


def has_word(text: str, value: str) -> bool:
    """Whether a text has a commit or tag as a word: v3.5 is not in v3.5.3."""
    return re.search(rf"(?<![\w./-]){re.escape(value)}(?![\w/-]|\.\w)", text) is not None


def _versions(one: str, other: str) -> Iterator[Version | None]:
    for text in (one, other):
        try:
            yield Version(text)
        except InvalidVersion:
            yield None


def same_version(one: str, other: str) -> bool:
    """Whether two texts are one version; what is none is compared as it is written."""
    left, right = _versions(one, other)
    return one == other if left is None or right is None else left == right


def same_release(one: str, other: str) -> bool:
    """Whether two versions are of one release: 2.6.0a0 in a tree is what becomes 2.6.0."""
    left, right = _versions(one, other)
    if left is None or right is None:
        return one == other
    return Version(left.base_version) == Version(right.base_version)

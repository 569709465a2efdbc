"""Which files in a checkout its build made: the names that were there before it ran, and those after it.

The tree is proved bare, then the note is opened and the build command started. What is there when the step
ends, and was not before, is the step's. A note that is still open is that of a build which failed or was
killed: what it left is known by the ignore rules of the pin itself, which no file of the user can extend.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild.engine.files import write_atomic
from xpubuild.frozen import frozen
from xpubuild.supply.git.gitmodules import TreeEntry
from xpubuild.supply.git.worktree import IGNORED, Missing, Repository, find_git_dir

#: The kinds of builds: one that ends, and one whose tree is then used in place.
WHEEL, EDITABLE = "wheel", "editable"
#: The key of the evidence of a build whose tree was proved, before and after it.
BARE = "tree_proved_bare"
_NOTE = "xpubuild-build.json"
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp", ".tcc", ".def", ".cuh")
_COMPILED = (".pyc", ".so")
_TEMPLATES = (".in", ".cmake.in", ".cmakein")


@frozen
class Built:
    """``made`` are names below the top; ``running`` is "" or the kind of a build.

    While a build runs, ``before`` was there and is not its own, and ``besides`` are places that it fills
    although the pin does not ignore them. The tree of an editable install is used in place all the time.
    """

    made: frozenset[str] = frozenset()
    running: str = ""
    before: frozenset[str] = frozenset()
    besides: tuple[str, ...] = ()

    def explains(self, place: str, kind: str) -> bool:
        """Whether a file that git does not track is the work of a build step."""
        if place in self.made:
            return True
        if not self.running or place in self.before:
            return False
        return kind == IGNORED or any(f"{place}/".startswith(f"{other}/") for other in self.besides)

    def write(self, git_dir: Path) -> None:
        """Note it in a checkout's ``.git``, on the disk."""
        document = {
            "made": sorted(self.made),
            "running": self.running,
            "before": sorted(self.before),
            "besides": self.besides,
        }
        write_atomic(git_dir / _NOTE, json.dumps(document).encode())


def read_built(git_dir: Path) -> Built:
    """Return what is noted in a checkout's ``.git``; a note that cannot be read explains nothing."""
    try:
        found: dict[str, Any] = json.loads((git_dir / _NOTE).read_text("utf-8"))
        names = (frozenset(map(str, found[name])) for name in ("made", "before"))
        return Built(next(names), str(found["running"]), next(names), tuple(map(str, found["besides"])))
    except (OSError, ValueError, TypeError, KeyError):
        return Built()


def add_made(top: Path, file: Path) -> None:
    """Note a file below ``top`` that we have put there ourselves, where ``top`` is a checkout."""
    git_dir = find_git_dir(top)
    if git_dir is not None:
        built = read_built(git_dir)
        replace(built, made=built.made | {file.relative_to(top).as_posix()}).write(git_dir)


def extras(found: Sequence[Repository | Missing]) -> Iterator[tuple[str, str]]:
    """Yield every file that git does not track: its name below the top, and its kind."""
    for item in found:
        if isinstance(item, Repository):
            yield from ((item.place(change.path), change.kind) for change in item.changes if change.extra)


class Shadows:
    """Knows the pinned files that a file beside them would be taken for."""

    def __init__(self, found: Sequence[Repository | Missing]) -> None:
        self._repositories = [item for item in found if isinstance(item, Repository)]

    @functools.cached_property
    def _pinned(self) -> dict[str, TreeEntry]:
        return {item.place(entry.path): entry for item in self._repositories for entry in item.entries}

    @functools.cached_property
    def _folders(self) -> Collection[str]:
        return {path.rpartition("/")[0] for path in self._pinned}

    @functools.cached_property
    def _headers(self) -> dict[str, list[str]]:
        named: dict[str, list[str]] = {}
        for path in self._pinned:
            if path.endswith(_HEADERS):
                named.setdefault(path.rpartition("/")[2], []).append(path)
        return named

    def of(self, top: Path, place: str) -> str:
        """Return the pinned file that a compiler or an interpreter would not read for this one, or ""."""
        folder, _, name = place.rpartition("/")
        stem = name.partition(".")[0]
        if name.endswith(_COMPILED):
            module = f"{place.removesuffix(name).removesuffix('__pycache__/')}{stem}.py"
        else:
            module = f"{folder}.py" if stem == "__init__" else ""
        if module in self._pinned:
            return module
        if not name.endswith(_HEADERS) or folder not in self._folders:
            return ""
        # Made from a template that lies beside it, or a copy: the compiler reads what the pin says.
        if any(place + suffix in self._pinned for suffix in _TEMPLATES):
            return ""
        others = self._headers.get(name, [])
        copied = others and _blob(top / place, self._pinned[others[0]].oid)
        return "" if any(self._pinned[path].oid == copied for path in others) else next(iter(others), "")


def _blob(file: Path, like: str) -> str:
    """Return git's name of a file's content, in the format of another."""
    if not file.is_file():
        return ""
    data = file.read_bytes()
    algorithm = hashlib.sha1 if len(like) == 40 else hashlib.sha256  # noqa: PLR2004 - as git has it
    return algorithm(b"blob %d\0" % len(data) + data).hexdigest()

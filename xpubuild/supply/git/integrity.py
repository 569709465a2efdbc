"""Verifies that a checkout matches its pin: every commit, every file, every submodule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild.engine.model import SimpleProof
from xpubuild.engine.redact import recordable
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.edits import (
    BARE,
    EDITABLE,
    IN_USE,
    WHEEL,
    Built,
    extras,
    find_edits,
    read_built,
    refuse,
)
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.submodules import read_links
from xpubuild.supply.git.worktree import IGNORED, Missing, Repository, is_untouched, require_git_dir, walk


def verify_checkout(into: Path, pin: Pin, *, git: Git | None = None) -> dict[str, Any]:
    """Prove that ``into`` is the tree of ``pin`` and return the evidence.

    The evidence holds ``url``, ``commit``, ``tree`` and ``submodules`` (path, url, commit). Nothing else may
    be in the tree but what builds of xpubuild created.

    Raises:
        SourceIntegrityError: it is not; the message names the file, submodule or commit.
        ToolchainError: git is missing or too old.
    """
    git = git or Git.open()
    try:
        git_dir = require_git_dir(into)
        repositories = _require_bare(git, into, pin, _look(git, into, pin), read_built(git_dir))
        tree = git.parse(git_dir, f"{pin.commit}^{{tree}}")
        if pin.tree not in (None, tree):
            why = f"its tree is {tree}, but the pin has {pin.tree}"
            raise _broken(into, why, "create a new lock with xpubuild lock")
    except SourceIntegrityError as error:
        if is_untouched(into):
            # Nothing to mend here: a checkout sets a damaged one aside itself, with its lock held.
            error.mend = lambda: None
        raise
    return {
        "url": recordable(pin.url),
        "commit": pin.commit,
        "tree": tree,
        "submodules": _submodules(git, repositories, pin.url) if pin.submodules else [],
    }


def _look(git: Git, into: Path, pin: Pin | None) -> list[Repository | Missing]:
    skip, submodules = (pin.skip, pin.submodules) if pin is not None else ((), False)
    return list(walk(git, into, require_git_dir(into), submodules=submodules, skip=skip))


def _require_bare(
    git: Git, into: Path, pin: Pin | None, found: Sequence[Repository | Missing], built: Built
) -> list[Repository]:
    """Return the repositories of the tree; raise where they hold more or less than the pin and a build.

    Without a pin, for a tree with edits on purpose, nothing is refused.
    """
    repositories = [item for item in found if isinstance(item, Repository)]
    if pin is None:
        return repositories
    expected = {"": {pin.commit}}
    for item in repositories:
        expected |= {item.place(link): {commit} for link, commit in item.links().items()}
    refuse(into, find_edits(git, found, expected=expected, moving=None, built=built), pin.commit)
    for lost in found:
        if isinstance(lost, Missing) or lost.head is None:
            again = "run the same command again; the checkout is created again"
            raise _broken(into, f"the submodule {lost.path} is not checked out", again)
    return repositories


def _submodules(git: Git, repositories: Sequence[Repository], url: str) -> list[dict[str, str]]:
    urls, there = {"": url}, {item.path for item in repositories}
    found = []
    for item in repositories:
        if item.head is None or not item.links() or item.path not in urls:
            continue
        for link in read_links(git, item.git_dir, item.head, urls[item.path]):
            place = item.place(link.path)
            urls[place] = link.url
            if place in there:  # else the pin skips it
                found.append({"path": place, "url": link.url, "commit": link.commit})
    return sorted(found, key=lambda entry: entry["path"])


@frozen
class TreeProof:
    """The proof of a checkout step: the folder is the pinned tree and holds no edit. Cheap: two short git
    calls for each repository.
    """

    into: str
    pin: Pin

    def describe(self) -> str:
        """Return what is checked."""
        return f"{self.into} is commit {self.pin.commit[:12]} with its submodules, unchanged"

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {"proof": "tree", "into": self.into, "pin": self.pin.key()}

    def check(self) -> dict[str, Any]:
        """Return the evidence of ``verify_checkout``.

        Raises:
            SourceIntegrityError: the folder is not the pinned tree.
        """
        return verify_checkout(Path(self.into), self.pin)


def begin_build(
    into: Path, pin: Pin | None, kind: str, besides: Sequence[str] = (), notes: Path | None = None
) -> None:
    """Prove that a tree is bare, and note what lies there: the next command is that of a build.

    ``pin`` is None for a tree with edits on purpose, ``kind`` WHEEL or EDITABLE. ``besides`` are paths that
    the build fills although the pin does not ignore them, such as a repository that CMake clones. ``notes``
    is the folder for the note about a tree of somebody's own, into which nothing is written.

    Raises:
        SourceIntegrityError: the tree contains files of neither the pin nor a build of xpubuild.
    """
    git, place = Git.open(), notes or require_git_dir(into)
    place.mkdir(parents=True, exist_ok=True)
    built = read_built(place)
    if pin is None and kind == EDITABLE and built.running == IN_USE:
        return  # the tree was looked at for the plan, and nothing is refused
    # What a developer left in a tree in use is no work of a build that ended.
    strict = replace(built, running="") if built.in_place else built
    found = _require_bare(git, into, pin, _look(git, into, pin), strict if kind == WHEEL else built)
    made = {name for name, change in extras(found) if strict.explains(name, change)}
    # What the pin ignores is of no account where developers build in place.
    counted = [name for name, change in extras(found) if notes or kind == WHEEL or change.kind != IGNORED]
    Built(frozenset(made), kind, frozenset(counted) - made, tuple(besides), built.pins).write(place)


@frozen
class BuiltTreeProof(SimpleProof):
    """The proof of a build: its tree is still the pinned one, and what appeared in it is noted as its work.

    Without it no wheel is published, and so none is kept. ``pin`` is None for a tree with edits on purpose.
    """

    words = "{into} holds what was checked out and what the build made"

    into: str
    pin: Pin | None
    notes: Path | None = None

    def key(self) -> None:
        """Return nothing: the command before the build names the tree and the commit."""

    def check(self) -> dict[str, Any]:
        """Return how many files of builds the tree holds, and their names where it is somebody's own.

        Raises:
            SourceIntegrityError: it is not the pinned tree, or a file hides a pinned one.
        """
        into = Path(self.into)
        place = self.notes or require_git_dir(into)
        built = read_built(place)
        if built.running != IN_USE or self.pin is not None:
            git = Git.open()
            found = _look(git, into, self.pin)
            if self.notes is not None:
                built = replace(built, made=frozenset(name for name, _ in extras(found)) - built.before)
            elif built.running in (WHEEL, EDITABLE):
                built = replace(built, made=built.made_in(found))
            _require_bare(git, into, self.pin, found, built)
            if built.running == WHEEL:
                Built(built.made, pins=built.pins).write(place)
            elif built.running == EDITABLE:
                replace(built, running=IN_USE, besides=()).write(place)
        names = {"appeared": sorted(built.made)} if self.notes is not None else {}
        return {BARE: self.pin is not None, "made_in_tree": len(built.made), **names}


def _broken(into: Path, why: str, fix: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"{into} is not the pinned source", why=why, fix=fix, evidence={"folder": str(into)}
    )

"""Verifies that a checkout matches its pin: every commit, every file, every submodule."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild.engine.fingerprint import file_sha256
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.built import BARE, EDITABLE, WHEEL, Built, extras, read_built
from xpubuild.supply.git.edits import find_edits, refuse
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.gitmodules import read_links
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.untouched import is_untouched
from xpubuild.supply.git.worktree import Missing, Repository, find_git_dir, require_git_dir, walk

_AGAIN = "run the same command again; the checkout is created again"


def verify_checkout(into: Path, pin: Pin, *, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Prove that ``into`` is the tree of ``pin`` and return the evidence.

    The evidence holds ``commit``, ``tree``, ``submodules`` (path, url, commit) and ``digest``: the sha256
    over ``path NUL mode NUL blob-id NEWLINE`` of every file and submodule of the recursive tree, sorted by
    the bytes of the path. Nothing else may lie in the tree but what builds of ours have made there.

    Raises:
        SourceIntegrityError: it is not; the message names the file, submodule or commit.
        ToolchainError: git is missing or too old.
    """
    return verify(Git.open(env), into, pin)


def verify(git: Git, into: Path, pin: Pin) -> dict[str, Any]:
    """Do what ``verify_checkout`` says, with a git that is already found."""
    try:
        return _verify(git, into, pin)
    except SourceIntegrityError as error:
        if is_untouched(into):
            error.mend = _left_to_the_checkout
        raise


def _left_to_the_checkout() -> None:
    """Do nothing: a checkout sets a damaged one aside itself, with its lock held."""


def _bare(git: Git, into: Path, pin: Pin | None, built: Built) -> list[Repository]:
    """Return the repositories of the tree; raise where they hold more or less than the pin and a build.

    Without a pin, for a tree with edits on purpose, nothing is refused.
    """
    skip = pin.skip if pin is not None else ()
    submodules = pin is not None and pin.submodules
    found = list(walk(git, into, require_git_dir(into), submodules=submodules, skip=skip))
    repositories = [item for item in found if isinstance(item, Repository)]
    if pin is None:
        return repositories
    expected = {"": {pin.commit}}
    for item in repositories:
        expected |= {item.place(link): {commit} for link, commit in item.links().items()}
    edits = find_edits(git, found, expected=expected, moving=None, built=built)
    if edits:
        raise refuse(into, edits, pin.commit)
    for lost in found:
        if isinstance(lost, Missing) or lost.head is None:
            raise _broken(into, f"the submodule {lost.path} is not checked out", _AGAIN)
    return repositories


def _verify(git: Git, into: Path, pin: Pin) -> dict[str, Any]:
    git_dir = require_git_dir(into)
    repositories = _bare(git, into, pin, read_built(git_dir))
    tree = git.query(["rev-parse", f"{pin.commit}^{{tree}}"], git_dir=git_dir).text
    if pin.tree is not None and tree != pin.tree:
        why = f"its tree is {tree}, but the pin has {pin.tree}"
        raise _broken(into, why, "create a new lock with xpubuild lock")
    return {
        "commit": pin.commit,
        "tree": tree,
        "submodules": _submodules(git, repositories, pin.url) if pin.submodules else [],
        "digest": _digest(repositories),
    }


def _submodules(git: Git, repositories: Sequence[Repository], url: str) -> list[dict[str, str]]:
    urls = {"": url}
    there = {item.path for item in repositories}
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


def _digest(repositories: Sequence[Repository]) -> str:
    lines = sorted(
        (os.fsencode(item.place(entry.path)), entry.mode, entry.oid)
        for item in repositories
        for entry in item.entries
    )
    total = hashlib.sha256()
    for path, mode, oid in lines:
        total.update(path + f"\0{mode}\0{oid}\n".encode("ascii"))
    return total.hexdigest()


def dirty_digest(
    into: Path, *, env: Mapping[str, str] | None = None, skip: Collection[str] = ()
) -> str | None:
    """Return the sha256 of what differs from HEAD in ``into`` and its submodules; None if nothing does.

    For a developer who builds with edits on purpose: the same edits give the same digest. ``skip`` are
    submodules that need not be there.

    Raises:
        SourceIntegrityError: ``into`` is not a checkout, or git cannot read it.
    """
    git = Git.open(env)
    git_dir = find_git_dir(into)
    if git_dir is None:
        raise _broken(into, "it is not a git checkout", "pass the folder of a checkout")
    total = hashlib.sha256()
    built = read_built(git_dir)
    clean = True
    links: dict[str, str] = {}
    for item in walk(git, into, git_dir, submodules=True, skip=skip):
        if isinstance(item, Missing):
            clean = False
            total.update(os.fsencode(item.path) + b"\0missing\n")
            continue
        moved = item.path in links and links[item.path] != item.head
        if moved:
            total.update(os.fsencode(item.path) + f"\0{item.head}\n".encode("ascii"))
        links |= {item.place(link): commit for link, commit in item.links().items()}
        changes = [
            change
            for change in item.changes
            if (change.path not in item.links() or change.staged)
            and not (change.extra and built.explains(item.place(change.path), change.kind))
        ]
        for change in sorted(changes, key=lambda change: os.fsencode(change.path)):
            total.update(os.fsencode(item.place(change.path)) + b"\0")
            total.update(_content(item.work_tree / change.path))
        clean = clean and not changes and not moved
    return None if clean else total.hexdigest()


def _content(file: Path) -> bytes:
    """Return one line for what is at ``file``: kind, executable bit and the sha256 of the content."""
    if file.is_symlink():
        return b"link " + os.fsencode(file.readlink()) + b"\n"
    if not file.is_file():
        return b"folder\n" if file.is_dir() else b"gone\n"
    mode = "755" if os.access(file, os.X_OK) else "644"
    return f"file {mode} {file_sha256(file)}\n".encode("ascii")


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


def begin_build(into: Path, pin: Pin | None, kind: str, besides: Sequence[str] = ()) -> None:
    """Prove that a tree is bare, and note what lies there: the next command is that of a build.

    ``pin`` is None for a tree with edits on purpose, ``kind`` WHEEL or EDITABLE. ``besides`` are paths that
    the build fills although the pin does not ignore them, such as a repository that CMake clones.

    Raises:
        SourceIntegrityError: the tree holds what neither the pin nor a build of ours put there.
    """
    git, git_dir = Git.open(), require_git_dir(into)
    built = read_built(git_dir)
    # What a developer left in a tree in use is no work of a build that ended.
    strict = replace(built, running="") if built.running == EDITABLE else built
    found = _bare(git, into, pin, strict if kind == WHEEL else built)
    made = {place for place, what in extras(found) if strict.explains(place, what)}
    before = {place for place, _ in extras(found)} - made if kind == WHEEL else set()
    Built(frozenset(made), kind, frozenset(before), tuple(besides)).write(git_dir)


@frozen
class BuiltTreeProof:
    """The proof of a build: its tree is still the pinned one, and what appeared in it is noted as its work.

    Without it no wheel is published, and so none is kept. ``pin`` is None for a tree with edits on purpose.
    """

    into: str
    pin: Pin | None

    def describe(self) -> str:
        """Return what is checked."""
        return f"{self.into} holds what was checked out and what the build made"

    def key(self) -> None:
        """Return nothing: the command before the build names the tree and the commit."""

    def check(self) -> dict[str, Any]:
        """Return how many files of builds the tree holds.

        Raises:
            SourceIntegrityError: it is not the pinned tree, or a file hides a pinned one.
        """
        git, into = Git.open(), Path(self.into)
        git_dir = require_git_dir(into)
        built = read_built(git_dir)
        found = _bare(git, into, self.pin, built)
        made = {place for place, kind in extras(found) if built.explains(place, kind)}
        if built.running == WHEEL:
            Built(frozenset(made)).write(git_dir)
        return {BARE: self.pin is not None, "made_in_tree": len(made)}


def _broken(into: Path, why: str, fix: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"{into} is not the pinned source", why=why, fix=fix, evidence={"folder": str(into)}
    )

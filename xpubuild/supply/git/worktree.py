"""The state of a checkout on disk: where HEAD is, what differs from it, which submodules exist."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.submodules import GITLINK, TreeEntry

#: The kinds of files that git does not track; ``ignored`` by the pin's own ``.gitignore`` files alone.
UNTRACKED, IGNORED = "untracked", "ignored"
_TRACKED_FIELDS = {"1": 8, "2": 9, "u": 10}  # columns before the path in porcelain v2


@frozen
class Change:
    """A path that is not as HEAD has it. ``kind`` is modified, untracked, ignored, unmerged or hidden.

    ``hidden`` are files that git passes over on request (assume-unchanged, skip-worktree): their content is
    not known to be the tree's. ``staged`` where the index differs from HEAD.
    """

    path: str
    kind: str
    staged: bool = False

    @property
    def extra(self) -> bool:
        """Whether git does not track it, or it is in a repository that it does not track."""
        return self.kind in (UNTRACKED, IGNORED)


@frozen
class Repository:
    """One repository of a checkout. ``path`` is its place below the top, "" for the top itself.

    ``head`` is None before the first checkout. ``entries`` is the index, submodules included.
    """

    path: str
    work_tree: Path
    git_dir: Path
    head: str | None
    changes: tuple[Change, ...]
    entries: tuple[TreeEntry, ...]

    def links(self) -> dict[str, str]:
        """Return path -> commit of the submodules, as the index has them."""
        return {entry.path: entry.oid for entry in self.entries if entry.mode == GITLINK}

    def place(self, path: str) -> str:
        """Return the path below the top of something in this repository."""
        return f"{self.path}/{path}" if self.path else path


@frozen
class Missing:
    """A submodule whose repository is not there; ``files`` where its folder holds something all the same."""

    path: str
    commit: str
    files: bool


def find_git_dir(work_tree: Path) -> Path | None:
    """Return the repository of a work tree: its ``.git`` folder, or what a ``.git`` file names.

    Never looks in a parent folder. None where there is none, or where the file leads nowhere.
    """
    found = dot_git = work_tree / ".git"
    if not dot_git.is_dir():
        if not dot_git.is_file() or dot_git.is_symlink():
            return None
        text = dot_git.read_text("utf-8", "surrogateescape")
        if not text.startswith("gitdir: "):
            return None
        found = Path(os.path.normpath(work_tree / text.removeprefix("gitdir: ").rstrip("\n")))
    return found if (found / "HEAD").exists() else None


def require_git_dir(work_tree: Path) -> Path:
    """Return the repository of a work tree.

    Raises:
        SourceIntegrityError: there is none.
    """
    git_dir = find_git_dir(work_tree)
    if git_dir is None:
        raise SourceIntegrityError(
            f"{work_tree} is not a git checkout",
            fix="run the same command again; the checkout is created again",
        )
    return git_dir


def inspect(git: Git, path: str, work_tree: Path, git_dir: Path) -> Repository:
    """Look at one repository without changing it.

    Raises:
        SourceIntegrityError: git cannot read it.
    """

    def ask(*words: str) -> list[str]:
        answer = git.query([*words, "-z"], git_dir=git_dir, work_tree=work_tree)
        if not answer.ok:
            raise SourceIntegrityError(
                f"the checkout {work_tree} cannot be read by git",
                why=answer.stderr.strip() or f"git exited with code {answer.returncode}",
                fix="if you do not need its content, move the folder away and run the same command again",
                evidence={"folder": str(work_tree)},
            )
        return [os.fsdecode(item) for item in answer.stdout.split(b"\0") if item]

    look = ("status", "--porcelain=v2", "--branch", "--no-renames", "--ignore-submodules=dirty")
    head, changes = _read_status(ask(*look, "--untracked-files=no"))
    entries = []
    for line in ask("ls-files", "--stage", "-v"):
        words, _, name = line.partition("\t")
        tag, mode, oid, _stage = words.split(" ")
        entries.append(TreeEntry(mode, oid, name))
        # Lower case: assume-unchanged. S: skip-worktree.
        if tag.islower() or tag == "S":
            changes.append(Change(name, "hidden"))
    # Not from status: it would leave out what the user's own ignore rules name.
    every = ask("ls-files", "--others")
    rules = ("--ignored", "--exclude-per-directory=.gitignore")
    ignored = set(ask("ls-files", "--others", *rules)) if every else set()
    for name in every:
        kind = IGNORED if name in ignored else UNTRACKED
        changes.append(Change(name.rstrip("/"), kind))
        below = find_git_dir(work_tree / name) if name.endswith("/") else None
        if below is not None:  # a repository that a build has cloned into the tree
            nested = inspect(git, "", work_tree / name, below)
            changes.append(Change(f"{name}@{nested.head}", kind))
            changes += [Change(name + change.path, kind) for change in nested.changes]
    return Repository(path, work_tree, git_dir, head, tuple(changes), tuple(entries))


def _read_status(lines: list[str]) -> tuple[str | None, list[Change]]:
    head: str | None = None
    changes = []
    for line in lines:
        kind = line.partition(" ")[0]
        if line.startswith("# branch.oid "):
            oid = line.removeprefix("# branch.oid ")
            head = None if oid == "(initial)" else oid
        elif kind in _TRACKED_FIELDS:
            path = line.split(" ", _TRACKED_FIELDS[kind])[-1]
            changes.append(Change(path, "unmerged" if kind == "u" else "modified", staged=line[2] != "."))
    return head, changes


def walk(
    git: Git, top: Path, git_dir: Path, *, submodules: bool, skip: Collection[str] = ()
) -> Iterator[Repository | Missing]:
    """Yield the top repository and every submodule below it, parents first.

    A submodule in ``skip``, or all without ``submodules``, need not be there; one that is there, or a folder
    with files in its place, is looked at like any other.

    Raises:
        SourceIntegrityError: git cannot read one of them.
    """
    waiting = [("", top, git_dir)]
    while waiting:
        found = inspect(git, *waiting.pop(0))
        yield found
        for link, commit in found.links().items():
            place, folder = found.place(link), found.work_tree / link
            below = find_git_dir(folder)
            if below is not None:
                waiting.append((place, folder, below))
                continue
            is_folder = folder.is_dir() and not folder.is_symlink()
            files = any(folder.iterdir()) if is_folder else os.path.lexists(folder)
            if files or (submodules and place not in skip):
                yield Missing(place, commit, files=files)

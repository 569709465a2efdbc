"""The state of a checkout on disk: where HEAD is, what differs from it, which submodules exist."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.git import Answer, Git
from xpubuild.supply.git.gitmodules import GITLINK, TreeEntry

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
    dot_git = work_tree / ".git"
    if dot_git.is_dir():
        return dot_git if (dot_git / "HEAD").exists() else None
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

    def ask(*words: str) -> bytes:
        answer = git.query([*words, "-z"], git_dir=git_dir, work_tree=work_tree)
        if not answer.ok:
            raise _unreadable(work_tree, answer)
        return answer.stdout

    look = ("status", "--porcelain=v2", "--branch", "--no-renames", "--ignore-submodules=dirty")
    head, changes = _read_status(ask(*look, "--untracked-files=no"))
    entries, hidden = _read_index(ask("ls-files", "--stage", "-v"))
    # Not from status: it would leave out what the user's own ignore rules name.
    every = _names(ask("ls-files", "--others"))
    rules = ("--ignored", "--exclude-per-directory=.gitignore")
    ignored = set(_names(ask("ls-files", "--others", *rules))) if every else set()
    for name in every:
        kind = IGNORED if name in ignored else UNTRACKED
        changes.append(Change(name.rstrip("/"), kind))
        changes += _in_nested(git, work_tree, name, kind) if name.endswith("/") else ()
    return Repository(path, work_tree, git_dir, head, (*changes, *hidden), entries)


def _names(output: bytes) -> list[str]:
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def _in_nested(git: Git, work_tree: Path, name: str, kind: str) -> Iterator[Change]:
    """Yield the commit of a repository that a build has cloned into the tree, and what differs from it."""
    git_dir = find_git_dir(work_tree / name)
    if git_dir is not None:
        nested = inspect(git, "", work_tree / name, git_dir)
        yield Change(f"{name}@{nested.head}", kind)
        yield from (Change(name + change.path, kind) for change in nested.changes)


def walk(
    git: Git,
    top: Path,
    git_dir: Path,
    *,
    submodules: bool,
    skip: Collection[str] = (),
) -> Iterator[Repository | Missing]:
    """Yield the top repository and every submodule below it, parents first.

    A submodule in ``skip``, or all without ``submodules``, need not be there; one that is there, or a folder
    with files in its place, is looked at like any other.

    Raises:
        SourceIntegrityError: git cannot read one of them.
    """
    waiting = [("", top, git_dir)]
    while waiting:
        path, work_tree, repository = waiting.pop(0)
        found = inspect(git, path, work_tree, repository)
        yield found
        for link, commit in found.links().items():
            folder = work_tree / link
            below = find_git_dir(folder)
            if below is None:
                files = _holds_files(folder)
                if files or (submodules and found.place(link) not in skip):
                    yield Missing(found.place(link), commit, files=files)
            else:
                waiting.append((found.place(link), folder, below))


def _holds_files(folder: Path) -> bool:
    if folder.is_symlink() or not folder.is_dir():
        return folder.is_symlink() or folder.exists()
    return any(folder.iterdir())


def _read_status(output: bytes) -> tuple[str | None, list[Change]]:
    head: str | None = None
    changes = []
    for raw in output.split(b"\0"):
        line = os.fsdecode(raw)
        kind = line.partition(" ")[0]
        if line.startswith("# branch.oid "):
            oid = line.removeprefix("# branch.oid ")
            head = None if oid == "(initial)" else oid
        elif kind in _TRACKED_FIELDS:
            path = line.split(" ", _TRACKED_FIELDS[kind])[-1]
            changes.append(Change(path, "unmerged" if kind == "u" else "modified", staged=line[2] != "."))
    return head, changes


def _read_index(output: bytes) -> tuple[tuple[TreeEntry, ...], list[Change]]:
    entries, hidden = [], []
    for line in output.split(b"\0"):
        if not line:
            continue
        head, _, raw = line.partition(b"\t")
        tag, mode, oid, _stage = head.decode("ascii").split(" ")
        path = os.fsdecode(raw)
        entries.append(TreeEntry(mode, oid, path))
        # Lower case: assume-unchanged. S: skip-worktree.
        if tag.islower() or tag == "S":
            hidden.append(Change(path, "hidden"))
    return tuple(entries), hidden


def _unreadable(work_tree: Path, answer: Answer) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"the checkout {work_tree} cannot be read by git",
        why=answer.stderr.strip() or f"git exited with code {answer.returncode}",
        fix="if you do not need its content, move the folder away and run the same command again",
        evidence={"folder": str(work_tree)},
    )

"""The state of a checkout on disk: where HEAD is, what differs from it, which submodules exist.

xpubuild notes in its ``.git`` which commit it checked out, and a move under way.

A power cut or a failing disk takes content and leaves the times of files; whoever edits, adds, removes or
commits something changes the time of a file or a folder, which no program can set back (ctime).
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from xpubuild.engine.files import read_json, write_json
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.submodules import GITLINK, TreeEntry

#: The kinds of files that git does not track; ``ignored`` by the pin's own ``.gitignore`` files alone.
UNTRACKED, IGNORED = "untracked", "ignored"
#: The kind of the commit at which a repository is that lies in a tree without being tracked: path/@COMMIT.
COMMIT = "checked out"
_TRACKED_FIELDS = {"1": 8, "2": 9, "u": 10}  # columns before the path in porcelain v2


@frozen
class Change:
    """A path that is not as HEAD has it. ``kind`` is modified, untracked, ignored, unmerged or hidden.

    ``hidden`` are files that git passes over on request (assume-unchanged, skip-worktree): their content is
    not known to be the tree's. ``staged`` where the index differs from HEAD. ``clone`` is the repository that
    holds the path, where a build has cloned it into a tree that does not track it, else "".
    """

    path: str
    kind: str
    staged: bool = False
    clone: str = ""

    @property
    def extra(self) -> bool:
        """Whether git does not track it, or it is in a repository that it does not track."""
        return self.kind in (UNTRACKED, IGNORED) or bool(self.clone)


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
        changes.append(Change(name.rstrip("/"), IGNORED if name in ignored else UNTRACKED))
        below = find_git_dir(work_tree / name) if name.endswith("/") else None
        if below is not None:  # a repository that a build has cloned into the tree
            own = Git(git.program, {key: value for key, value in git.env.items() if key != "GIT_INDEX_FILE"})
            for nested in walk(own, work_tree / name, below, submodules=False):
                place = f"{name}{nested.path}/".replace("//", "/")
                if isinstance(nested, Repository):
                    changes.append(Change(f"{place}@{nested.head}", COMMIT, clone=place))
                    its = (item for item in nested.changes if item.extra or item.path not in nested.links())
                    changes += [replace(it, path=place + it.path, clone=place + it.clone) for it in its]
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


_DONE, _MOVE = "xpubuild-checkout.json", "xpubuild-move.json"
# A file that changed shortly before it was looked at can change again within the same tick of the clock.
_SETTLED_NS = 2_000_000_000


def read_done(git_dir: Path) -> str | None:
    """Return the commit that xpubuild checked out last; None where it did not make this checkout."""
    commit = read_json(git_dir / _DONE).get("commit")
    return commit if isinstance(commit, str) else None


def finished_ns(git_dir: Path) -> int | None:
    """Return when the checkout was finished (ns); None if it is not xpubuild's, or being moved."""
    if read_done(git_dir) is None or (git_dir / _MOVE).exists():
        return None
    return (git_dir / _DONE).lstat().st_ctime_ns


def write_done(git_dir: Path, commit: str) -> None:
    """Note a finished checkout; the move is over."""
    write_json(git_dir / _DONE, {"commit": commit})
    (git_dir / _MOVE).unlink(missing_ok=True)


def read_move(git_dir: Path) -> dict[str, set[str]] | None:
    """Return path -> commits that a half-done move may have left there; None where no move is noted."""
    if not (git_dir / _MOVE).exists():
        return None
    commits = read_json(git_dir / _MOVE).get("commits")
    return {str(path): set(ids) for path, ids in commits.items()} if isinstance(commits, dict) else {}


def write_move(git_dir: Path, commits: Mapping[str, set[str]]) -> None:
    """Note, before the first file changes, between which commits the repositories are being moved."""
    write_json(git_dir / _MOVE, {"commits": {path: sorted(ids) for path, ids in commits.items()}})


def is_untouched(place: Path) -> bool:
    """Whether ``place`` is a finished checkout of xpubuild, and nothing in it was written after that."""
    git_dir = place / ".git"
    finished = finished_ns(git_dir) if git_dir.is_dir() and not git_dir.is_symlink() else None
    # The folder is renamed after that, and the note itself changes the folder that it is in. git rewrites an
    # index to look faster; it has nothing of its own but what was staged as objects.
    if finished is None or place.stat().st_mtime_ns > finished:
        return False
    return all(
        status.st_ctime_ns <= finished or (path.startswith(f"{git_dir}/") and path.endswith("/index"))
        for path, status in _below(str(place))
        if path != str(git_dir)
    )


def tree_stamp(place: Path, settled_ns: int = _SETTLED_NS) -> int | None:
    """Return one number for everything in a checkout, ``.git`` included: names, modes, sizes and times.

    The objects of its repositories are left out: they decide nothing that is checked out, and may be links.
    None where something changed less than ``settled_ns`` ago, cannot be looked at, or is of a repository
    that lies elsewhere.
    """
    total, newest, began = hashlib.sha256(), 0, time.time_ns()
    try:
        for path, status in ((str(place), os.lstat(place)), *_below(str(place), objects=False)):
            if path.endswith("/.git") and stat.S_ISREG(status.st_mode):
                git_dir = find_git_dir(Path(path).parent)
                if git_dir is None or not git_dir.is_relative_to(place):
                    return None
            newest = max(newest, status.st_ctime_ns)
            mark = f"{path[len(str(place)) :]}\0{status.st_mode} {status.st_size} {status.st_ino}"
            mark += f" {status.st_mtime_ns} {status.st_ctime_ns}\0"
            total.update(mark.encode("utf-8", "surrogateescape"))
    except OSError:
        return None
    return int.from_bytes(total.digest()[:7], "big") if newest < began - settled_ns else None


def _below(folder: str, *, objects: bool = True) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every path below a folder, in one order, with what lstat says."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not objects and entry.name == "objects" and "/.git/" in f"{folder}/":
                continue
            yield entry.path, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path, objects=objects)

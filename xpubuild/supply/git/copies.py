"""A synced copy of a checkout that somebody works in: builds write into the copy, and nothing into the tree.

Files have the times of the originals, so that a build of the copy compiles what was changed and no more. What
the tree's own ``.gitignore`` names is left out: it is what builds there have made. A repository of the copy
has the commit and the index of the original, and reads the objects of that one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from xpubuild.engine.files import explained, write_atomic, write_changed
from xpubuild.engine.redact import recordable
from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.git.failures import require
from xpubuild.supply.git.git import Git, object_format
from xpubuild.supply.git.own_tree import left_out
from xpubuild.supply.git.serving import ConfigureItem
from xpubuild.supply.git.submodules import GITLINK
from xpubuild.supply.git.worktree import COMMIT, Missing, Repository, find_git_dir, require_git_dir, walk

_LIST = "xpubuild-copied.json"
#: FICLONE of linux/fs.h: both files share their blocks, where the file system can do that.
_CLONE = 0x40049409


def synchronise(source: Path, into: Path, items: Sequence[ConfigureItem], skip: Sequence[str]) -> int:
    """Make ``into`` hold what ``source`` does; return how many files were copied or removed.

    What builds have made in ``into`` stays. ``items`` are repositories that a build clones into the tree, and
    ``skip`` submodules that need not be there.

    Raises:
        SourceIntegrityError: ``source`` is no checkout, lacks a submodule, or git cannot read it.
        NoSpaceError, ToolchainError: ``into`` cannot be written.
    """
    git, wanted, changed = Git.open(), dict[str, Path](), 0
    with explained(into, f"copying {source}"):
        for item in _repositories(git, source, items, skip):
            repository = into / item.path
            if repository.is_symlink() or repository.is_file():
                repository.unlink()
            repository.mkdir(parents=True, exist_ok=True)
            _make_repository(git, item, repository / ".git")
            names = [entry.path for entry in item.entries if entry.mode != GITLINK]
            names += [
                one.path
                for one in item.changes
                if one.extra and not (one.clone or left_out(item, one, items))
            ]
            for name in names:
                file = item.work_tree / name
                if file.is_symlink() or file.is_file():
                    wanted[item.place(name)] = file
        note = into / ".git" / _LIST
        with contextlib.suppress(OSError, ValueError):
            for name in sorted(set(json.loads(note.read_text("utf-8"))) - wanted.keys()):
                changed += _remove(into, name)
        # Before the first of them is there: a copy that is cut short knows what it has to remove.
        write_atomic(note, json.dumps(sorted(wanted)).encode())
        for name, file in wanted.items():
            changed += _copy(file, into / name)
    return changed


def is_copy(tree: Path) -> bool:
    """Whether a tree is a copy of xpubuild's: what somebody works in is elsewhere."""
    return (tree / ".git" / _LIST).is_file()


def _repositories(
    git: Git, source: Path, items: Sequence[ConfigureItem], skip: Sequence[str]
) -> Iterator[Repository]:
    """Yield those of the tree, and those that a build has cloned into it, by their places below the top."""
    clones = []
    for item in walk(git, source, require_git_dir(source), submodules=True, skip=skip):
        if isinstance(item, Missing):
            raise SourceIntegrityError(
                f"the submodule {item.path} of {source} is not checked out",
                why="a build of the tree as it is needs it",
                fix="check it out",
                commands=(f"git -C '{source}' submodule update --init --recursive",),
            )
        yield item
        clones += [item.place(one.clone).rstrip("/") for one in item.changes
                   if one.kind == COMMIT and not left_out(item, one, items)]  # fmt: skip
    for place in clones:
        git_dir = find_git_dir(source / place)
        for item in walk(git, source / place, git_dir, submodules=False) if git_dir is not None else ():
            if isinstance(item, Repository):
                yield replace(item, path=f"{place}/{item.path}".rstrip("/"))


def _make_repository(git: Git, item: Repository, place: Path) -> None:
    """Make or renew the repository of a copy, at the commit and with the index of the original."""
    common = Path(git.query(["rev-parse", "--git-common-dir"], git_dir=item.git_dir).text)
    common = common if common.is_absolute() else item.git_dir / common
    head = item.head or "0" * 40
    url = git.query(["config", "--get", "remote.origin.url"], git_dir=item.git_dir).text
    kind = f"--object-format={object_format(head)}"
    commands = [["init", "--quiet", "--template=", kind, str(place.parent.absolute())]]
    set_url = ["--git-dir", str(place.absolute()), "config", "remote.origin.url", recordable(url)]
    for words in [*commands, set_url] if url else commands:
        require(git.query(words), f"copying {item.work_tree}")
    alternates = f"{common.resolve() / 'objects'}\n".encode("utf-8", "surrogateescape")
    write_changed(place / "objects/info/alternates", alternates)
    write_changed(place / "HEAD", f"{head}\n".encode())
    for name, theirs in (("index", item.git_dir), ("shallow", common)):
        if (theirs / name).is_file():
            _copy(theirs / name, place / name)


def _remove(into: Path, name: str) -> int:
    file = into / name
    if not os.path.lexists(file) or (file.is_dir() and not file.is_symlink()):
        return 0
    file.unlink()
    with contextlib.suppress(OSError):
        for folder in file.parents:
            if folder == into:
                break
            folder.rmdir()
    return 1


def _copy(file: Path, place: Path) -> int:
    """Make ``place`` the same file or link, unless size, mode and time say that it is."""
    theirs = file.lstat()
    with contextlib.suppress(FileNotFoundError):
        own = place.lstat()
        if _mark(own) == _mark(theirs) and (
            not stat.S_ISLNK(theirs.st_mode) or place.readlink() == file.readlink()
        ):
            return 0
        if stat.S_ISDIR(own.st_mode):
            shutil.rmtree(place)
        else:
            place.unlink()
    place.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISLNK(theirs.st_mode):
        place.symlink_to(file.readlink())
    else:
        with file.open("rb") as one, place.open("xb") as other:
            try:
                fcntl.ioctl(other.fileno(), _CLONE, one.fileno())
            except OSError:
                shutil.copyfileobj(one, other, 1 << 20)
        place.chmod(stat.S_IMODE(theirs.st_mode) | stat.S_IWUSR)
    os.utime(place, ns=(theirs.st_atime_ns, theirs.st_mtime_ns), follow_symlinks=False)
    return 1


def _mark(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mode | stat.S_IWUSR, status.st_size, status.st_mtime_ns

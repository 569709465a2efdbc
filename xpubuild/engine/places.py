"""Folders that several people use, the nearest one that exists, and what names another place for a file."""

from __future__ import annotations

import contextlib
import grp
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from xpubuild.errors import UsageError

#: Set by [share] of a configuration file.
_GROUP, _OF_FOLDERS = "XPUBUILD_SHARE_GROUP", "XPUBUILD_SHARE_MODE"
#: What the mode of folders may be: their owner can do everything, and set-gid hands the group on.
_MODE = re.compile(r"[02]?7[0-7]{2}")
#: The bits of a mode with which others than the owner may write.
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
#: What [share] may at most allow in a folder: to read; to write too; to write, but not what is another one's.
READ, WRITE, STICKY = 0o2755, 0o2777, 0o3777
_FILE, _FOLDER, _ENTER = 0o4, 0o5, 0o1
_Found = TypeVar("_Found")
#: Folder or file -> the option that names another one. Each place says so itself.
_OPTIONS: dict[Path, str] = {}


class Share(NamedTuple):
    """For whom things are shared: the group ``gid``, or everybody where it is -1; ``mode`` is of folders."""

    mode: int
    gid: int
    is_set: bool

    def lacks(self, status: os.stat_result, wanted: int = 0) -> bool:
        """Whether they cannot read a file, or read and enter a folder; or what ``wanted`` says."""
        wanted = wanted or (_FOLDER if stat.S_ISDIR(status.st_mode) else _FILE)
        # A mode that closes to others and names no group means that of each file.
        by_group = self.gid == status.st_gid or (self.gid == -1 and not self.mode & _FOLDER)
        return bool(wanted & ~(status.st_mode >> (3 if by_group else 0)))

    def give(self, path: Path, most: int = READ) -> None:
        """Let them use one file or folder of this user's; no permission is removed, no link is followed."""
        with contextlib.suppress(FileNotFoundError, PermissionError):
            status = path.lstat()
            if status.st_uid != os.geteuid() or stat.S_ISLNK(status.st_mode):
                return
            wanted = self.mode & (0o755 if status.st_mode & stat.S_IXUSR else 0o644)
            if stat.S_ISDIR(status.st_mode):
                wanted = self.mode & most
                wanted |= most & stat.S_ISVTX if wanted & WRITABLE_BY_OTHERS else 0
            if self.gid in (-1, status.st_gid) and not wanted & ~status.st_mode:
                return
            # By a descriptor: who may write to the folder could put a link there meanwhile.
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                try:
                    os.fchown(fd, -1, self.gid)
                except PermissionError:  # this user is not in the group: another gets what everybody gets
                    wanted = wanted & ~0o2070 | (wanted & 0o007) << 3
                os.fchmod(fd, stat.S_IMODE(status.st_mode) | wanted)
            finally:
                os.close(fd)


def sharing() -> Share:
    """Return for whom things are shared; without [share] in the configuration, everybody may read them.

    Raises:
        UsageError: the group is not known, or the mode is none.
    """
    group, mode = os.environ.get(_GROUP, ""), os.environ.get(_OF_FOLDERS, "")
    try:
        gid = int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid if group else -1
    except KeyError as error:
        why = f"group of [share] in the configuration, or {_GROUP}, names it"
        raise UsageError(
            f"there is no group '{group}'", why=why, fix="name a group of this system"
        ) from error
    if mode and not _MODE.fullmatch(mode):
        fix = "use the mode of a folder, such as 2750 or 2775"
        raise UsageError(f"{_OF_FOLDERS} cannot be '{mode}'", fix=fix)
    return Share(int(mode or ("2755" if group else "755"), 8), gid, bool(group or mode))


def make_shared(folder: Path, most: int = READ) -> None:
    """Make a folder, and those above it that are missing, for those for whom things are shared.

    With a umask of 077 they could not read what was put there for them. A folder that is there stays as it
    is. ``most`` is READ, WRITE or STICKY.

    Raises:
        UsageError: see ``sharing``.
        OSError: it cannot be made.
    """
    rules, missing = sharing(), []
    for path in (folder, *folder.parents):
        if path.exists():
            break
        missing.append(path)
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            path.mkdir(0o700)
            rules.give(path, most)
    folder.mkdir(exist_ok=True)  # an error where it is no folder


def within(folder: Path) -> Iterator[Path]:
    """Yield a file or folder and all in it, as far as it can be read; links are not followed."""
    yield folder
    for place, folders, names in os.walk(folder):
        yield from (Path(place, name) for name in (*folders, *names))


def share(paths: Iterable[Path]) -> None:
    """Let those for whom things are shared read these, as far as they are this user's.

    What goes away meanwhile is left out: a download that failed beside others removes its file when it ends.

    Raises:
        UsageError: see ``sharing``.
        OSError: permissions cannot be changed.
    """
    rules = sharing()
    for path in paths:
        rules.give(path)


def unreachable(paths: Iterable[Path]) -> list[Path]:
    """Return what is closed to those for whom these are shared, and folders on the way to the first that are.

    Of links, it is what they lead to. Permissions of the classic kind count; what access control lists add
    does not. What Python has compiled nobody needs: its owner's next import may write it with any umask.
    """
    rules, seen, found = sharing(), set[Path](), list[Path]()
    for path in paths:
        with contextlib.suppress(OSError):
            way = {*Path(os.path.realpath(path)).parents} if not seen or path.is_symlink() else set()
            found += sorted(above for above in way - seen if rules.lacks(above.stat(), _ENTER))
            seen |= way
            found += [path] if "__pycache__" not in path.parts and rules.lacks(path.stat()) else []
    return found


def cannot_write(folder: Path) -> str:
    """Return why this user cannot put files into a folder, made already or not; "" where nothing says so."""
    there = existing(folder)
    if not there.is_dir():
        return f"{there} is not a folder"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"you have no permission to write to {there}"


def existing(path: Path) -> Path:
    """Return a path, or the nearest folder above it that exists; links are followed."""
    place = Path(os.path.realpath(path))
    while place != place.parent and not os.access(place, os.F_OK):
        place = place.parent
    return place


def existing_quoted(path: str | Path) -> str:
    """Return ``existing`` as a word for a shell: ``df`` refuses a folder that is not made yet."""
    return shlex.quote(str(existing(Path(path))))


def reached_by(found: _Found, option: str) -> _Found:
    """Note the option, such as --mirror, that names another folder or file in the place of this one."""
    for place in found if isinstance(found, tuple) else (found,):
        if isinstance(place, Path):
            _OPTIONS[place] = option
    return found


def another_place(path: Path) -> str:
    """Return the advice on how to use another place than ``path``: the cache is not the workspace."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    if Path(home) in (path, *path.parents):
        return "by setting XDG_CACHE_HOME"
    options = (_OPTIONS[place] for place in (path, *path.parents) if place in _OPTIONS)
    return f"with {next(options, '--workspace')}"

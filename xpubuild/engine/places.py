"""Folders that several people use, the nearest one that exists, and what names another place for a file."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from pathlib import Path

#: What everybody may do in a folder that is made to be shared, whatever the umask of who makes it.
_FOLDER, _FILE = 0o755, 0o644
#: The bits of a mode with which others than the owner may write.
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def make_shared(folder: Path) -> None:
    """Make a folder, and those above it that are missing, so that others can enter it.

    A mirror or a folder of wheels is there for others. With a umask of 077 they could not read what was put
    there for them. To keep others out, close a folder above it, or the folder itself once it is there.

    Raises:
        OSError: it cannot be made.
    """
    missing = []
    for path in (folder, *folder.parents):
        if path.exists():
            break
        missing.append(path)
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            path.chmod(_FOLDER)
    folder.mkdir(exist_ok=True)  # an error where it is no folder


def share(folder: Path) -> None:
    """Let others read what this user has made below ``folder``; links are not followed.

    What goes away meanwhile is left out: a download that failed beside others removes its file when it ends.

    Raises:
        OSError: a folder cannot be read.
    """
    me = os.geteuid()

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for place, folders, names in os.walk(folder, onerror=refuse):
        for path in (Path(place, name) for name in (*folders, *names)):
            with contextlib.suppress(FileNotFoundError):
                status = path.lstat()
                wanted = _FOLDER if stat.S_ISDIR(status.st_mode) else _FILE
                lacking = wanted & 0o055 & ~status.st_mode
                if lacking and status.st_uid == me and not stat.S_ISLNK(status.st_mode):
                    path.chmod(stat.S_IMODE(status.st_mode) | lacking)


def existing(path: Path) -> Path:
    """Return a path, or the nearest folder above it that exists; links are followed."""
    place = Path(os.path.realpath(path))
    while place != place.parent and not os.access(place, os.F_OK):
        place = place.parent
    return place


def existing_quoted(path: str | Path) -> str:
    """Return ``existing`` as a word for a shell: ``df`` refuses a folder that is not made yet."""
    return shlex.quote(str(existing(Path(path))))


def another_place(path: Path, doing: str) -> str:
    """Return the words that tell how to use another place than ``path``: the cache is not the workspace."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    if Path(home) in (path, *path.parents):
        return "by setting XDG_CACHE_HOME"
    return "with --mirror" if "mirror" in doing else "with --workspace"

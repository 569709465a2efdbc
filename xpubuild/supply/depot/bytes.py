"""Reads and hashes the files of a depot. Needs no write permission and no lock."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from xpubuild.errors import SourceIntegrityError, ToolchainError
from xpubuild.frozen import frozen
from xpubuild.supply.depot.entries import GIT, FileRecord

#: Gets the number of bytes that were read since the last call.
Progress = Callable[[int], None]
_CHUNK = 1 << 20


@frozen
class Damage:
    """Something in a depot that is not what its index says."""

    path: str
    """Below the depot."""
    what: str
    why: str
    entry: str = ""
    """The id of its entry."""

    def __str__(self) -> str:
        return f"{self.path} {self.what}: {self.why}"


def damage_error(path: Path, damages: Sequence[Damage]) -> SourceIntegrityError:
    """Return the error that names what is damaged in a depot."""
    count = f" and {len(damages) - 1} more" if len(damages) > 1 else ""
    first = damages[0]
    return SourceIntegrityError(
        f"the mirror {path} is damaged: {first.path} {first.what}{count}",
        why=first.why,
        fix="with a network, fetch the same recipe again: only damaged files are downloaded again",
        commands=(f"xpubuild check {shlex.quote(str(path))}",),
        evidence={"mirror": str(path), "damaged": [dict(vars(item)) for item in damages]},
    )


def scan(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder, sorted; nothing where there is no folder.

    Raises:
        ToolchainError: the folder may not be read.
    """
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda item: item.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ToolchainError(
            f"{folder} cannot be read",
            why=str(error.strerror),
            fix="correct the permissions of the mirror, or pass another one with --mirror",
        ) from error


def places_in(root: Path, folder: str) -> list[str]:
    """Return what is in a folder of a depot, as paths below that."""
    return [f"{folder}/{item.name}" for item in scan(root / folder)]


def repositories_in(root: Path) -> list[str]:
    """Return the ids of the repositories in a depot."""
    return [place for place in places_in(root, GIT) if re.fullmatch(r"[^/]+/[^.].*\.git", place)]


def walk(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield (path below ``folder``, entry) of all that is no folder, links to folders included."""
    for item in scan(folder):
        if item.is_dir(follow_symlinks=False):
            for path, below in walk(Path(item.path)):
                yield f"{item.name}/{path}", below
        else:
            yield item.name, item


def digest_of(path: Path, progress: Progress | None = None) -> tuple[int, str]:
    """Return size and sha256 of a file; a link is not followed.

    Raises:
        OSError: it does not exist, is no file, or cannot be read.
    """
    total, size = hashlib.sha256(), 0
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            total.update(chunk)
            size += len(chunk)
            if progress is not None:
                progress(len(chunk))
    return size, total.hexdigest()


def compare(root: Path, record: FileRecord, progress: Progress | None = None) -> str:
    """Return what is wrong with a file of a depot; "" where every byte is what it was."""
    path = root / record.path
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return "it is not a regular file"
        if status.st_size != record.size:
            return f"it has {status.st_size} bytes, the index says {record.size}"
        _, digest = digest_of(path, progress)
    except FileNotFoundError:
        return "it does not exist"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return "" if digest == record.sha256 else f"its sha256 is {digest}, the index says {record.sha256}"


def compare_text(root: Path, path: str, text: bytes) -> str:
    """Return what is wrong with a small file that must have this content; "" for nothing."""
    record = FileRecord(path, len(text), hashlib.sha256(text).hexdigest())
    why = compare(root, record)
    return why if why in ("", "it does not exist") else "its content is not that which follows from the index"

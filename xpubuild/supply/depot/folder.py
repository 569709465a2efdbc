"""A depot as a folder: read, hashed, locked, written. Content comes first, the index that lists it last.

Files are moved to names that follow from their content, and the index is replaced as a whole, after all that
it lists is on the disk. So readers, who take no lock and may have it mounted read-only, find all of a fetch
or nothing of it, also after a kill; what is not listed yet is listed by the next fetch or by a repair.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from xpubuild.engine.files import explained, remove_tree, sync_filesystems, write_changed
from xpubuild.engine.places import make_shared, share, within
from xpubuild.engine.process import Cancel
from xpubuild.engine.temporary import DRAFT
from xpubuild.errors import FetchError, SourceIntegrityError, ToolchainError, UsageError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.depot.entries import (
    FILES,
    GIT,
    INDEX,
    PAGE,
    SETS,
    WHEELS,
    Entry,
    EntryError,
    FileRecord,
    Index,
    OtherVersionError,
    file_entry,
    read_index,
)  # fmt: skip
from xpubuild.supply.git.git import locked
from xpubuild.supply.index.pipconf import links_page
from xpubuild.untrusted import UntrustedError, read_bytes

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
        fix = "correct the permissions of the mirror, or pass another one with --mirror"
        raise ToolchainError(f"{folder} cannot be read", why=str(error.strerror), fix=fix) from error


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


_LOCK = ".lock"
#: Downloads on their way; what is interrupted stays here, and the next fetch goes on with it.
DOWNLOADS = ".downloads"
_CONTENT = frozenset({GIT, FILES, SETS, PAGE, WHEELS, _LOCK, DOWNLOADS})
#: What depots of earlier versions had.
_EARLIER = frozenset({"mirror.json", "manifest"})
#: The longest index that is read: far beyond that of a depot of a million files.
MOST_BYTES = 256 << 20


class Depot:
    """The depot at ``path``. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[object, Index] | None = None

    @classmethod
    def open(cls, path: Path, *, create: bool = False, damaged: bool = False) -> Depot:
        """Return the depot at ``path``; ``damaged`` accepts one without a sound index, to check or repair it.

        Raises:
            UsageError: the folder holds somebody's files and is no depot, or one of another version.
            FetchError: there is no such folder, and ``create`` is not set.
            SourceIntegrityError: its index is damaged.
            NoSpaceError, ToolchainError: it cannot be made or read.
        """
        depot = cls(path)
        if path.exists() and not path.is_dir():
            raise UsageError(f"the mirror {path} is not a folder", fix="pass a folder with --mirror")
        there = {item.name for item in scan(path) if not item.name.startswith((DRAFT, f".{INDEX}."))}
        if there & _EARLIER:
            raise _other_version(path, f"it has {min(there & _EARLIER)}")
        if INDEX in there:
            with contextlib.suppress(*([SourceIntegrityError] if damaged else [])):
                depot.index()
        elif there - _CONTENT:
            raise UsageError(
                f"{path} is not a mirror of xpubuild",
                why=f"it has {', '.join(sorted(there - _CONTENT)[:5])}, which xpubuild did not make",
                fix="pass an empty or new folder, or a mirror, with --mirror",
            )
        elif create:
            with explained(path, "making the mirror"):
                make_shared(path)
            if not there & {FILES, SETS, GIT}:
                write_changed(path / INDEX, Index().text())
        elif not there & {FILES, SETS}:
            raise FetchError(
                f"{path} is not a mirror",
                why="the folder is empty" if path.exists() else "the folder does not exist",
                fix="fill it on a machine with a network, or pass another folder with --mirror",
                commands=(f"xpubuild fetch RECIPE --mirror {shlex.quote(str(path))}",),
                evidence={"reason": "offline", "mirror": str(path)},
            )
        elif not damaged:
            raise damage_error(path, [Damage(INDEX, "is missing", "there is something in the mirror", INDEX)])
        return depot

    # --- reading ---------------------------------------------------------------------------------------

    def index(self) -> Index:
        """Return what the depot lists.

        Raises:
            SourceIntegrityError: the index is damaged or missing.
            UsageError: another version of xpubuild wrote it.
        """
        place, what, why = self.path / INDEX, "is damaged", "it is not a regular file"
        try:
            status = place.lstat()
            stamp = (status.st_size, status.st_mtime_ns, status.st_ino)
            if stat.S_ISREG(status.st_mode):
                if self._read is None or self._read[0] != stamp:
                    self._read = stamp, read_index(read_bytes(place, MOST_BYTES))
                return self._read[1]
        except FileNotFoundError:
            what, why = "is missing", "it does not exist"
        except OtherVersionError as error:
            raise _other_version(self.path, str(error)) from None
        except OSError as error:
            why = str(error.strerror)
        except (EntryError, UntrustedError) as error:
            why = str(error)
        raise damage_error(self.path, [Damage(INDEX, what, why, INDEX)])

    def files(self) -> list[Entry]:
        """Return the entries of all files.

        Raises:
            SourceIntegrityError: the index is damaged.
        """
        return self.index().files()

    def listed(self) -> Index:
        """Return what the depot lists: nothing where the index is damaged or missing."""
        try:
            return self.index()
        except SourceIntegrityError:
            return Index()

    def file(self, entry: Entry) -> Path:
        """Return a file that is listed, every byte of it verified now.

        Raises:
            SourceIntegrityError: it is damaged or was removed; the message names it.
        """
        record = entry.files[0]
        why = compare(self.path, record)
        if why:
            raise damage_error(self.path, [Damage(record.path, "is damaged", why, entry.id)])
        return self.path / record.path

    # --- writing ---------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def writing(
        self, *, cancel: Cancel | None = None, report: Callable[[str], None] | None = None
    ) -> Iterator[None]:
        """Keep other writers out; ``publish`` and ``add_file`` are called inside.

        Raises:
            InterruptedByUserError: ``cancel`` was set while waiting.
            SourceIntegrityError: a part of the depot is a link.
            NoSpaceError, ToolchainError: the depot cannot be written to.
        """
        require_no_links(self.path)
        use = f"writes to the mirror {self.path}"
        with locked(self.path / _LOCK, cancel=cancel, report=report, use=use):
            try:
                yield
            except BaseException:
                with contextlib.suppress(XpuBuildError, OSError):
                    self._share()
                raise
            self._share()

    def _share(self) -> None:
        with explained(self.path, "changing the mirror"):
            # From where the user's cache is made alike; a mirror is nothing that backups leave out.
            (self.path / GIT / "CACHEDIR.TAG").unlink(missing_ok=True)
            share(path for path in within(self.path) if path != self.path)

    def publish(self, index: Index) -> None:
        """Make an index the depot's own; its sets and the page for pip are written first.

        Raises:
            NoSpaceError, ToolchainError: the depot cannot be written to.
        """
        for one in index.sets.values():
            put(self.path / one.path, one.text())
        if (self.path / PAGE).exists() or any(entry.kind in ("wheel", "sdist") for entry in index.files()):
            put(self.path / PAGE, page(index))
        sync_filesystems([self.path])
        put(self.path / INDEX, index.text())

    def add_file(self, source: Path) -> Entry:
        """Move a file to the place that follows from its content, and return its entry; ``publish`` lists it.

        ``source`` must be on the file system of the depot.

        Raises:
            NoSpaceError, ToolchainError: the depot cannot be written to.
        """
        with explained(self.path, f"keeping {source.name}"):
            size, sha256 = digest_of(source)
            entry = file_entry(source.name, sha256, size)
            if compare(self.path, entry.files[0]):
                remove_tree(self.path / entry.id)
                (self.path / entry.id).mkdir(parents=True)
                source.replace(self.path / entry.files[0].path)
        return entry

    def found_file(self, place: str) -> Entry | None:
        """Return the entry of a file that is in its place, listed or not; every byte is hashed."""
        for item in scan(self.path / place):
            with contextlib.suppress(OSError, EntryError):
                size, digest = digest_of(Path(item.path))
                if place == f"{FILES}/{digest}":
                    return file_entry(item.name, digest, size)
        return None


def page(index: Index) -> bytes:
    """Return the page by which pip finds wheels and source distributions, with relative links and hashes."""
    python = [entry for entry in index.files() if entry.kind in ("wheel", "sdist")]
    return links_page((quote(item.files[0].path), item.name, item.sha256) for item in python).encode()


def put(path: Path, data: bytes) -> None:
    """Write a file of a depot: a file belongs there, not a way to one."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        remove_tree(path)
    write_changed(path, data)


def require_no_links(root: Path) -> None:
    """Refuse a depot of which a folder is a link: what is written or removed there could be anybody's.

    Raises:
        SourceIntegrityError: there is one; it is named, and nothing was changed.
        ToolchainError: a folder cannot be read.
    """
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        for item in scan(folder):
            # Writers replace a link in the place of a file, and do not follow it.
            is_part = folder == root and item.name not in (INDEX, PAGE)
            if item.is_symlink() and (is_part or Path(item.path).is_dir()):
                raise SourceIntegrityError(
                    f"{item.path} is a symbolic link, which a mirror does not have",
                    why=f"it leads to {Path(item.path).readlink()}: files there would be replaced or removed",
                    fix="if somebody else made the mirror, ask them; else move the files there",
                    commands=(f"ls -l {shlex.quote(item.path)}",),
                )
            if item.is_dir(follow_symlinks=False) and (folder != root or item.name == GIT):
                waiting.append(Path(item.path))


def _other_version(path: Path, why: str) -> UsageError:
    fix = "pass a new folder with --mirror, and fetch the recipes into it"
    why = f"{why}; this version neither reads nor changes it"
    return UsageError(f"{path} is a mirror of another version of xpubuild", why=why, fix=fix)

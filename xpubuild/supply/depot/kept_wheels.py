"""A store in a folder: the user's own, or one that several users share.

Nothing in it is overwritten: a file is written beside its place, flushed and linked to its name, and a name
that is taken stays what it is. A process that is killed leaves drafts, never a part under a name. No link is
followed and no pipe is opened, neither to read nor to write.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from xpubuild.engine.files import explained, replacing
from xpubuild.engine.places import STICKY, make_shared
from xpubuild.errors import FetchError, SourceIntegrityError, ToolchainError
from xpubuild.frozen import frozen
from xpubuild.supply.depot.entries import WHEELS
from xpubuild.supply.depot.location import Trust
from xpubuild.supply.depot.record import (
    DISTRIBUTION,
    MOST_BYTES,
    RECORD,
    Record,
    RecordError,
    read_record,
    record_path,
)

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV})
#: What a folder of xpubuild has of the store's own permissions: group and sticky bits, not set-user-id.
_INHERITED, _OWN = 0o3777, 0o755
NOT_A_FOLDER = "it is not a folder"
NOT_THERE = "it is not there"


@frozen
class FolderStore:
    """The store in ``root``. ``own`` is the user's, which is made where it is missing."""

    root: Path
    trust: Trust
    own: bool = False

    @property
    def name(self) -> str:
        """The store as messages name it."""
        return str(self.root)

    def why_not(self) -> str:
        """Return why the store must not be used, "" where it may be.

        One that is not there may be on a disk that is not mounted, or misspelt; only the user's own is made.
        """
        try:
            found = [self.root.stat()]
            if stat.S_ISDIR(found[0].st_mode):
                with contextlib.suppress(FileNotFoundError):
                    found.append((self.root / WHEELS).lstat())
        except FileNotFoundError:
            return "" if self.own else NOT_THERE
        except OSError as error:
            return NOT_THERE if isinstance(error, NotADirectoryError) else str(error.strerror)
        if any(not stat.S_ISDIR(status.st_mode) for status in found):
            return NOT_A_FOLDER
        # The cache has other things too, and is made by the user's umask; the folder of wheels is not.
        return self.trust.why_not(self.root, found[1:] if self.own else found)

    def make(self) -> None:
        """Make the folder of the store where it is missing; what it is in must be there.

        Raises:
            NoSpaceError, ToolchainError: it cannot be made.
        """
        if not self.root.parent.is_dir():
            raise ToolchainError(
                f"the store {self.root} cannot be made",
                why=f"{self.root.parent} is not there",
                fix="name a folder on a disk that is mounted, or make the folder that it is to be in",
                commands=(f"mkdir -p {shlex.quote(str(self.root.parent))}",),
            )
        with explained(self.root, "making the folder of a store"), contextlib.suppress(FileExistsError):
            make_shared(self.root, STICKY)

    def can_write(self) -> bool:
        """Whether this user may put something there."""
        return self.own or (self.root.is_dir() and os.access(self.root, os.W_OK))

    def look(self, dist: str, key: str) -> Record | None:
        """Return the record of a build, None where there is none.

        Raises:
            SourceIntegrityError: there is something else under its name.
            OSError: the store cannot be read.
        """
        place = self.root / record_path(dist, key)
        try:
            with self._opened(place) as stream:
                data = stream.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise self._damaged(place, "it is too large for a record")
            return read_record(data, dist, key)
        except FileNotFoundError:
            return None
        except RecordError as error:
            raise self._damaged(place, str(error)) from None

    def bring(self, record: Record, into: Path) -> Path:
        """Copy the wheel of a record into a folder under its own name, every byte of it hashed.

        Raises:
            SourceIntegrityError: it is not the wheel that was kept.
            FetchError: it cannot be read.
            NoSpaceError, ToolchainError: the folder cannot be written.
        """
        source, target = self.root / record.wheel_path, into / record.file
        try:
            with (
                self._opened(source) as stream,
                explained(target, "taking a wheel from the store"),
                target.open("xb") as out,
            ):
                found = _pour(stream, out)
        except (OSError, ToolchainError) as error:
            fix = "the wheel is built instead; check the store"
            raise FetchError(f"{source} of a store cannot be read", why=str(error), fix=fix) from error
        if found != record.sha256:
            target.unlink()
            raise self._damaged(source, f"its sha256 is {found}")
        # When it was used last, for those who collect what is not.
        with contextlib.suppress(OSError):
            os.utime(self.root / record.path, follow_symlinks=False)
        return target

    def wrong(self, record: Record) -> str:
        """Return what is wrong with the wheel of a record, every byte of it hashed; "" for nothing."""
        try:
            with self._opened(self.root / record.wheel_path) as stream:
                found = _pour(stream, None)
        except SourceIntegrityError as error:
            return error.why
        except OSError as error:
            return str(error.strerror)
        return "" if found == record.sha256 else f"its sha256 is {found}, its record says {record.sha256}"

    def keep(self, record: Record, wheel: Path) -> str:
        """Put a wheel and then its record there; return why not, "" where it is kept now or was before.

        What is damaged there and this user's own gives way.

        Raises:
            SourceIntegrityError: somebody else's damaged file has the name.
            NoSpaceError, ToolchainError: it cannot be written; nothing of it is to be seen.
        """
        folder = self.root / WHEELS / record.dist
        with explained(folder, "keeping a wheel in the store"):
            self._make(folder)
            there = self._sound(record.dist, record.identity)
            if there is None:
                if os.path.lexists(self.root / record.wheel_path) and self.wrong(record):
                    self._give_way(self.root / record.wheel_path)
                with wheel.open("rb") as stream:
                    _link_new(self.root / record.wheel_path, lambda draft: _pour(stream, draft))
                if _link_new(self.root / record.path, lambda draft: draft.write(record.to_bytes())):
                    return ""
                there = self._sound(record.dist, record.identity)
        if there is None or there.sha256 == record.sha256:
            return ""
        return f"another build of the same identity is there, with sha256 {there.sha256}"

    def _sound(self, dist: str, key: str) -> Record | None:
        """Return what is kept under a name, if its wheel is there and right; else it gives way."""
        try:
            there = self.look(dist, key)
            if there is None or not self.wrong(there):
                return there
        except SourceIntegrityError:
            pass
        self._give_way(self.root / record_path(dist, key))
        return None

    def _give_way(self, path: Path) -> None:
        """Remove a damaged file of this user's; one of somebody else's stays, and nothing is kept.

        Raises:
            SourceIntegrityError: it is not this user's, or no file.
        """
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == os.geteuid():
                path.unlink()
        if os.path.lexists(path):
            raise self._damaged(path, "it is damaged, and not yours to remove")

    def records(self, dist: str | None = None) -> Iterator[tuple[Path, Record | str]]:
        """Yield each record, of one distribution or of all, with its path; or what is wrong with it."""
        for folder in self.folders():
            for path in sorted(folder.iterdir()) if dist in (None, folder.name) else ():
                match = RECORD.fullmatch(path.name)
                if match is None:
                    continue
                found: Record | str | None
                try:
                    found = self.look(folder.name, match["identity"])
                except SourceIntegrityError as error:
                    found = error.why
                except OSError as error:
                    found = str(error.strerror)
                if found is not None:
                    yield path, found

    def folders(self) -> list[Path]:
        """Return the folders of distributions."""
        with contextlib.suppress(OSError), os.scandir(self.root / WHEELS) as found:
            named = (item for item in found if DISTRIBUTION.fullmatch(item.name))
            return sorted(Path(item.path) for item in named if item.is_dir(follow_symlinks=False))
        return []

    @contextlib.contextmanager
    def _opened(self, path: Path) -> Iterator[BinaryIO]:
        """Open a file of the store; a folder or file that is a link, and what is no file, is damage."""
        if path.parent.is_symlink():
            raise self._damaged(path.parent, "it is a link")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise self._damaged(path, "it is a link or no file") from None
            raise
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise self._damaged(path, "it is not a file")
        with os.fdopen(descriptor, "rb") as stream:
            if not self.trust.names(self.root) and self.trust.why_foreign(status):
                raise self._damaged(path, "somebody else can change it")
            yield stream

    def _damaged(self, path: Path, why: str) -> SourceIntegrityError:
        return SourceIntegrityError(
            f"{path} of the store {self.root} is not used",
            why=why,
            fix="remove it from the store; its wheel is then built and kept again",
            evidence={"store": str(self.root), "path": str(path)},
        )

    def _make(self, folder: Path) -> None:
        """Make the folders of the store; those of a shared one take its permissions."""
        if self.own:
            self.root.mkdir(parents=True, exist_ok=True)
        mode = _OWN if self.own else self.root.stat().st_mode & _INHERITED
        for path in (folder.parent, folder):
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                path.chmod(mode)
            if path.is_symlink():
                why, fix = "nothing is written through a link", "remove the link, or use another store"
                raise ToolchainError(f"{path} is a link", why=why, fix=fix)


def _pour(stream: BinaryIO, out: BinaryIO | None) -> str:
    """Copy a stream, or only read it; return its sha256."""
    total = hashlib.sha256()
    while chunk := stream.read(1 << 20):
        total.update(chunk)
        if out is not None:
            out.write(chunk)
    return total.hexdigest()


def _link_new(target: Path, write: Callable[[BinaryIO], object]) -> bool:
    """Write a file that appears under its name whole and flushed; False where the name is taken.

    Raises:
        OSError: it cannot be written.
    """
    if os.path.lexists(target):
        return False
    try:
        with replacing(target, _link) as stream:
            write(stream)
    except FileExistsError:
        return False
    return True


def _link(draft: Path, target: Path) -> None:
    try:
        os.link(draft, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without hard links: between look and rename another process may be first, and
        # then two whole files of the same name were written, of which one stays.
        draft.rename(target)
    draft.unlink(missing_ok=True)

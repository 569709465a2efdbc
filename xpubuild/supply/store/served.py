"""A store on a web server, or on another machine over ssh, which ``store push`` also writes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from xpubuild.engine.files import explained
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.mirror.entries import FileRecord
from xpubuild.supply.mirror.remote.location import Location
from xpubuild.supply.mirror.remote.transport import Remote
from xpubuild.supply.store.folder import another_build
from xpubuild.supply.store.record import Record, RecordError, read_record, record_path
from xpubuild.supply.store.trust import Trust


@frozen
class ServedStore:
    """The store at ``location``; ``connect`` makes what reads it, and is called when it is first needed."""

    location: Location
    trust: Trust
    connect: Callable[[], Remote]

    @property
    def name(self) -> str:
        """The store as messages name it, without a login."""
        return self.location.url

    def why_not(self) -> str:
        """Return why the store must not be used, "" where it may be."""
        return self.trust.why_not(self.location, ())

    def look(self, dist: str, key: str) -> Record | None:
        """Return the record of a build, None where there is none.

        Raises:
            SourceIntegrityError: there is something else under its name.
            FetchError: the server does not answer.
        """
        path = record_path(dist, key)
        data = self.connect().read([path]).get(path)
        try:
            return None if data is None else read_record(data, dist, key)
        except RecordError as error:
            raise SourceIntegrityError(
                f"{path} of the store {self.name} is not used",
                why=str(error),
                fix="remove it from the store; what it was for is built again",
            ) from None

    def bring(self, record: Record, into: Path) -> Path:
        """Bring the wheel of a record into a folder under its own name, every byte of it hashed.

        Raises:
            SourceIntegrityError: it is not the wheel that was kept.
            FetchError: it did not come.
            NoSpaceError, ToolchainError: the folder cannot be written.
        """
        wanted = FileRecord(record.wheel_path, record.size, record.sha256)
        with explained(into, "taking a wheel from the store"), scratch_folder("store", into) as folder:
            self.connect().bring([wanted], folder, lambda *_: None)
            return (folder / record.sha256).rename(into / record.file)

    def keep(self, record: Record, wheel: Path) -> str:
        """Put a wheel and then its record there over ssh; return why not, "" where it is kept or was before.

        Nothing there is overwritten or removed.

        Raises:
            SourceIntegrityError: something damaged has the name.
            FetchError: the server does not answer.
            ToolchainError: it cannot be written.
        """
        from xpubuild.supply.store.sending import send  # noqa: PLC0415 - ssh, for `store push` alone

        data = record.to_bytes()
        its = FileRecord(record.path, len(data), hashlib.sha256(data).hexdigest())
        there = self.look(record.dist, record.identity)
        if there is None or there.sha256 == record.sha256:
            with wheel.open("rb") as stream:
                if not send(self.location, FileRecord(record.wheel_path, record.size, record.sha256), stream):
                    raise SourceIntegrityError(
                        f"{record.wheel_path} of the store {self.name} is damaged",
                        why="it is not the wheel that its name says",
                        fix="remove it on the server, and run the same command again",
                    )
            if there is not None or send(self.location, its, data):
                return ""
            there = self.look(record.dist, record.identity)
        if there is None or there.sha256 == record.sha256:
            return ""
        return another_build(there)

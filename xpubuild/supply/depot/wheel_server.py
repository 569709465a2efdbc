"""A store on a web server, which is only read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from xpubuild.engine.files import explained
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.depot.entries import FileRecord
from xpubuild.supply.depot.location import Location, Trust
from xpubuild.supply.depot.record import Record, RecordError, read_record, record_path

if TYPE_CHECKING:
    from xpubuild.supply.depot.served import Served


@frozen
class ServedStore:
    """The store at ``location``; ``connect`` makes what reads it, and is called when it is first needed."""

    location: Location
    trust: Trust
    connect: Callable[[], Served]

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
        data = self.connect().read(path)
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
            self.connect().fetch([wanted], folder, lambda *_: None)
            return (folder / record.sha256).rename(into / record.file)

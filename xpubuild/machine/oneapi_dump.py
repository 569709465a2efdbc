"""Reads the list of records that scripts/setvars/capture.sh writes. Pure: bytes in, values out."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

HEADER = b"#xpubuild-capture 1"
_SOURCE = b"#source "
_STATUS = b"#status "
_MARK = b"#"


@dataclass
class Dump:
    """What a list says. ``complete`` is False where a script ended the shell before the last record."""

    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    complete: bool = False

    @property
    def unfinished(self) -> str | None:
        """The script that was started and never reported a status."""
        return self.sources[len(self.statuses)] if len(self.sources) > len(self.statuses) else None


def _variable(record: bytes, into: dict[str, str]) -> None:
    name, equals, value = record.partition(b"=")
    if equals:
        into[os.fsdecode(name)] = os.fsdecode(value)


def parse_dump(data: bytes) -> Dump:
    """Read a list, whole or cut off. Values are decoded with surrogates for bytes that are not UTF-8.

    A record that is not ended by NUL was cut off and is ignored.
    """
    dump = Dump()
    current: dict[str, str] | None = None
    records = data.split(b"\0")[:-1]
    if records[:1] != [HEADER]:
        return dump
    for record in records[1:]:
        if not record.startswith(_MARK):
            if current is not None:
                _variable(record, current)
        elif record == b"#before":
            current = dump.before
        elif record == b"#after":
            current = dump.after
        elif record.startswith(_SOURCE):
            current = None
            dump.sources.append(os.fsdecode(record.removeprefix(_SOURCE)))
        elif record.startswith(_STATUS):
            dump.statuses.append(int(record.removeprefix(_STATUS)))
        elif record == b"#complete":
            dump.complete = record is records[-1]
    return dump

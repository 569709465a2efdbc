"""The record of a kept wheel: its build identity with all that it was made from, its file, audit and receipt.

A store has ``wheels/DISTRIBUTION/IDENTITY.json``, one record each, and beside it the wheel as ``SHA256.whl``.
Both are found by name alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import PurePosixPath
from typing import Any

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from xpubuild.frozen import frozen
from xpubuild.supply.depot.entries import WHEELS
from xpubuild.supply.depot.identity import identity
from xpubuild.untrusted import json_value

SCHEMA = "xpubuild.kept-wheel/1"
#: The audit of PyTorch's wheel has some 200 kB.
MOST_BYTES = 32 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Name of a distribution, as a folder's name.
DISTRIBUTION = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,100}[a-z0-9])?")
RECORD = re.compile(r"(?P<identity>[0-9a-f]{64})\.json")
WHEEL = re.compile(r"(?P<sha256>[0-9a-f]{64})\.whl")


#: The fields of a record and their types in JSON.
_FIELDS = {
    **dict.fromkeys(("identity", "dist", "file", "sha256"), str), "size": int,
    **dict.fromkeys(("inputs", "built", "audit"), dict),
}  # fmt: skip


class RecordError(ValueError):
    """The text is no record of the wheel that it is named for; the message says why."""


@frozen
class Record:
    """A kept wheel. ``size`` is in bytes; ``inputs`` is what ``store.identity`` made the identity of.

    ``read`` and ``searched`` are what must be here as it was for the build (``depot.build_reads``); where
    they are empty, ``inputs`` has all of the system.
    ``built`` says when, by which xpubuild and for which recipe; ``audit`` and ``commands`` are those of the
    receipt.
    """

    identity: str
    dist: str
    file: str
    sha256: str
    size: int
    inputs: Mapping[str, Any]
    built: Mapping[str, Any]
    audit: Mapping[str, Any]
    commands: tuple[Mapping[str, Any], ...] = ()
    read: Mapping[str, str] = field(default_factory=dict)
    searched: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """The version of the wheel, as its file name has it."""
        return str(parse_wheel_filename(self.file)[1])

    @property
    def path(self) -> str:
        """Where the record is in a store."""
        return record_path(self.dist, self.identity)

    @property
    def wheel_path(self) -> str:
        """Where the wheel is in a store."""
        return str(PurePosixPath(WHEELS, self.dist, f"{self.sha256}.whl"))

    def to_bytes(self) -> bytes:
        """Return the text of the record."""
        return (json.dumps({"schema": SCHEMA, **vars(self)}, indent=1, sort_keys=True) + "\n").encode()


def record_path(dist: str, key: str) -> str:
    """Return the path of a record in a store, by distribution and build identity."""
    return str(PurePosixPath(WHEELS, dist, f"{key}.json"))


def read_record(data: bytes, dist: str, key: str) -> Record:
    """Return the record that has this name.

    Raises:
        RecordError: it is not one, or its content is that of another build.
    """
    try:
        document = json_value(data)
    except ValueError as error:
        raise RecordError(f"it is not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise RecordError(f"it is not {SCHEMA}")
    record = _record(document)
    if record.dist != dist or canonicalize_name(_name_of(record.file)) != dist:
        raise RecordError(f"it is of {record.dist}, not of {dist}")
    if record.identity != key or identity(record.inputs) != key:
        raise RecordError("what it says it was made from is not what it is named for")
    return record


def _record(document: Mapping[str, Any]) -> Record:
    for name, kind in _FIELDS.items():
        if type(document.get(name)) is not kind:
            raise RecordError(f"its {name} is missing")
    commands = document.get("commands")
    listed = commands if isinstance(commands, list) else []
    record = Record(
        **{name: document[name] for name in _FIELDS},
        commands=tuple(item for item in listed if isinstance(item, dict)),
        read=_texts(document.get("read", {}), "read"),
        searched=_texts(document.get("searched", {}), "searched"),
    )
    if record.size < 0 or not _SHA256.fullmatch(record.sha256):
        raise RecordError("its size or sha256 is none")
    return record


def _texts(value: object, name: str) -> dict[str, str]:
    if not isinstance(value, dict) or any(not isinstance(item, str) for item in value.values()):
        raise RecordError(f"its {name} is not a mapping of text")
    return value


def _name_of(file: str) -> str:
    """Return the distribution of a wheel's file name; nothing else may be a name in somebody's folder."""
    try:
        return parse_wheel_filename(file)[0] if "/" not in file and file.isprintable() else ""
    except InvalidWheelFilename:
        return ""

"""Writes the repaired wheel: members are copied as a stream, RECORD is made anew.

``zipfile`` writes correct ZIP64 for what is above 4 GiB; ``wheel pack`` does not (pypa/wheel#692).
"""

from __future__ import annotations

import csv
import hashlib
import io
import shutil
import stat
import zipfile
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import IO

from xpubuild.artifacts.record import is_record_file, record_hash
from xpubuild.engine.files import explained, replacing
from xpubuild.frozen import frozen

_CHUNK = 1 << 20
_EARLIEST = (1980, 1, 1, 0, 0, 0)
_PLAIN, _PROGRAM = 0o644, 0o755


@frozen
class Changes:
    """What is other in the new wheel: ``files`` and ``texts`` by member; new members come last."""

    files: Mapping[str, Path] = field(default_factory=dict)
    texts: Mapping[str, bytes] = field(default_factory=dict)


def rewrite(wheel: Path, target: Path, changes: Changes, info: str) -> None:
    """Write ``wheel`` with changes as ``target``; ``info`` is its ``.dist-info`` folder.

    Signatures of RECORD are left out: they sign the old one.

    Raises:
        NoSpaceError, ToolchainError: the new wheel cannot be written.
    """
    with explained(target, f"writing {target.name}"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as stream, zipfile.ZipFile(wheel) as old, zipfile.ZipFile(stream, "w") as new:
            _Writer(old, new, changes).write(f"{info}/RECORD")


class _Writer:
    def __init__(self, old: zipfile.ZipFile, new: zipfile.ZipFile, changes: Changes) -> None:
        self._old, self._new, self._changes = old, new, changes
        self._lines: list[tuple[str, str, str]] = []

    def write(self, record: str) -> None:
        changes, there = self._changes, set(self._old.namelist())
        date = max((info.date_time for info in self._old.infolist()), default=_EARLIEST)
        for info in self._old.infolist():
            if not info.is_dir() and not is_record_file(info.filename):
                self._member(_like(info))
        for name in (*changes.files, *changes.texts):
            if name not in there:
                self._member(_new(name, date, _PROGRAM if name in changes.files else _PLAIN))
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([*self._lines, (record, "", "")])
        self._new.writestr(_new(record, date, _PLAIN), out.getvalue().encode())

    def _member(self, info: zipfile.ZipInfo) -> None:
        with self._content(info) as source:
            total = _Hashing(source)
            with self._new.open(info, "w") as target:
                shutil.copyfileobj(total, target, _CHUNK)
        self._lines.append((info.filename, record_hash(total.hash.digest()), str(total.size)))

    def _content(self, info: zipfile.ZipInfo) -> IO[bytes]:
        """Open what a member will hold; its size decides whether its header is one of ZIP64."""
        name = info.filename
        if name in self._changes.texts:
            info.file_size = len(self._changes.texts[name])
            return io.BytesIO(self._changes.texts[name])
        if name in self._changes.files:
            info.file_size = self._changes.files[name].stat().st_size
            return self._changes.files[name].open("rb")
        return self._old.open(name)


class _Hashing(io.RawIOBase):
    """Hashes what is read through it."""

    def __init__(self, source: IO[bytes]) -> None:
        super().__init__()
        self._source = source
        self.hash = hashlib.sha256()
        self.size = 0

    def read(self, length: int = -1) -> bytes:
        chunk = self._source.read(length)
        self.hash.update(chunk)
        self.size += len(chunk)
        return chunk


def _like(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(info.filename, info.date_time)
    made.compress_type, made.external_attr = info.compress_type, info.external_attr
    made.file_size = info.file_size
    return made


def _new(name: str, date: tuple[int, int, int, int, int, int], mode: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name, date)
    made.compress_type, made.external_attr = zipfile.ZIP_DEFLATED, (stat.S_IFREG | mode) << 16
    return made

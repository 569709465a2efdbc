"""Merges the entries of an export into a mirror: valid files are kept, only damaged ones are replaced.

The mirror is not changed here: a change is reduced to what the mirror lacks, and its entries list all files
of the result. Other files are removed when the change is applied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xpubuild.engine.process import Cancel
from xpubuild.errors import SourceIntegrityError
from xpubuild.mirror.check import check
from xpubuild.mirror.entries import PIN_FOLDER, Entry, FileRecord
from xpubuild.mirror.reading import Damage, compare, read_manifest, walk
from xpubuild.mirror.repositories import is_sound, merged_shallow, records_of
from xpubuild.mirror.writing import Stage
from xpubuild.source.git import Git

_NAMED = "refs/xpubuild/named/"
#: What only spares a later fetch some work.
_SPARE = ("refs/xpubuild/heads/", "refs/xpubuild/tags/")


def merge(
    root: Path, change: Stage, entries: Sequence[Entry], *, source: Path, cancel: Cancel
) -> tuple[list[Entry], list[Entry]]:
    """Reduce ``change`` to what the mirror at ``root`` lacks; return the new entries and those that it has.

    Raises:
        SourceIntegrityError: commits that the mirror has would be lost; they are named.
        ToolchainError: there is no git, and a repository's entry is lost.
    """
    damages: dict[str, list[Damage]] = {}
    for damage in check(root, {entry.id for entry in entries}, cancel.stop_here):
        damages.setdefault(damage.entry, []).append(damage)
    present = read_manifest(root).entries
    new, known = [], []
    for entry in entries:
        broken, old = damages.get(entry.id, []), present.get(entry.id)
        wanted = entry
        if entry.kind == "git":
            wanted = _Repository(root, change, entry, broken, source, cancel).merged(old)
        elif old is not None and not broken:
            wanted = old
            _leave_out(change, entry.files)
        if wanted == old and not broken:
            known.append(wanted)
        else:
            new.append(wanted)
            change.enter(wanted)
    return new, known


def _leave_out(change: Stage, records: Collection[FileRecord]) -> None:
    for record in records:
        (change.folder / record.path).unlink()


@dataclass
class _Repository:
    """One repository of an export, ``entry``, and the damage to the one that the mirror has."""

    root: Path
    change: Stage
    entry: Entry
    broken: Sequence[Damage]
    source: Path
    cancel: Cancel

    def merged(self, old: Entry | None) -> Entry:
        """Return the entry of what will be there, and leave in the change only what has to come."""
        known = old if old is not None else self._found()
        if known is None:
            return self.entry
        lost = {damage.path for damage in self.broken} & {record.path for record in known.files}
        kept = self._mended(known, lost)
        if kept is None:
            return self._replaced(known, lost)
        return self._joined(known, kept)

    def _found(self) -> Entry | None:
        """Return the entry of a repository that lost it; None where the export's may take its place.

        Objects are named by their content: where git finds all of them sound, nothing else has to be trusted.
        """
        folder = self.root / self.entry.folder
        if not folder.is_dir() or folder.is_symlink():
            return None
        if is_sound(Git.open(), self.root, self.entry.name, cancel=self.cancel):
            records = records_of(self.root, self.entry.name, None)
            pins = [path.rpartition("/")[2] for path in records if f"/{PIN_FOLDER}" in path]
            ordered = tuple(records[path] for path in sorted(records))
            return replace(self.entry, files=ordered, pins=tuple(sorted(pins)))
        there = (path for path, _ in walk(folder))
        self._require_kept({path.removeprefix(PIN_FOLDER) for path in there if path.startswith(PIN_FOLDER)})
        return None

    def _require_kept(self, pins: Collection[str]) -> None:
        lost = sorted({*pins} - {*self.entry.pins})
        if lost:
            name = self.entry.name
            raise SourceIntegrityError(
                f"importing {self.source.name} would lose commits of {self.entry.url}: {', '.join(lost)}",
                why=(
                    f"the mirror's {name} is damaged ({self.broken[0]}), and the export does not have "
                    "these commits"
                )
                if self.broken
                else f"the mirror's {name} is damaged, and the export does not have these commits",
                fix="import an export that has these commits too, or fetch their recipes with a network;"
                " nothing was imported",
                evidence={"export": str(self.source), "repository": name, "lost": lost},
            )

    def _mended(self, old: Entry, lost: Collection[str]) -> dict[str, FileRecord] | None:
        """Return the records of what stays, each file sound or in the change; None where one is lost."""
        brought = {record.path: record for record in self.entry.files}
        texts = _recallable(old)
        files: dict[str, FileRecord] = {}
        for record in old.files:
            inside = record.path.removeprefix(f"{old.folder}/")
            if record.path not in lost or brought.get(record.path) == record:
                files[record.path] = record
            elif record.sha256 in texts:
                files[record.path] = self._recalled(record.path, texts[record.sha256])
            elif inside in ("HEAD", "config") and record.path in brought:
                files[record.path] = brought[record.path]
            elif not inside.startswith(_SPARE):
                return None
        return files

    def _recalled(self, path: str, text: bytes) -> FileRecord:
        staged = self.change.folder / path
        if staged.exists():
            text = merged_shallow(text, staged.read_bytes()) if path.endswith("/shallow") else text
            staged.unlink()
        return self.change.write(path, text)

    def _replaced(self, old: Entry, lost: Collection[str]) -> Entry:
        """Return the export's entry, with what the mirror remembers of tags."""
        self._require_kept(old.pins)
        files = {record.path: record for record in self.entry.files}
        texts = _recallable(self.entry)
        for record in old.files:
            if f"/{_NAMED}" in record.path and record.path not in lost and record.sha256 in texts:
                if record.path in files:
                    (self.change.folder / record.path).unlink()
                files[record.path] = record
        return replace(self.entry, files=tuple(files[path] for path in sorted(files)))

    def _joined(self, old: Entry, kept: dict[str, FileRecord]) -> Entry:
        files = dict(kept)
        for record in self.entry.files:
            staged = self.change.folder / record.path
            if record.path.endswith("/shallow"):
                files[record.path] = self._shallow(kept.get(record.path), staged)
            elif record.path not in kept:
                files[record.path] = record
            elif not compare(self.root, kept[record.path]):
                staged.unlink()
        ordered = tuple(files[path] for path in sorted(files))
        return replace(old, files=ordered, pins=tuple(sorted({*old.pins, *self.entry.pins})))

    def _shallow(self, kept: FileRecord | None, staged: Path) -> FileRecord:
        """Return the record of ``shallow`` that ends history where both do."""
        path = f"{self.entry.folder}/shallow"
        if kept is not None and compare(self.root, kept):
            return kept  # damaged in the mirror; what is in the change is right
        text = staged.read_bytes()
        if kept is not None:
            text = merged_shallow(text, (self.root / path).read_bytes())
        staged.unlink()
        written = self.change.write(path, text)
        if written == kept:
            staged.unlink()
        return written


def _recallable(entry: Entry) -> dict[str, bytes]:
    """Return, by its sha256, what a small file of a repository can hold that its commits tell."""
    lines = [f"{pin}\n".encode() for pin in entry.pins]
    return {hashlib.sha256(text).hexdigest(): text for text in (*lines, b"".join(sorted(lines)))}

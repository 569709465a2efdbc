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
from xpubuild.supply.git.git import Git
from xpubuild.supply.mirror.check import check
from xpubuild.supply.mirror.entries import PIN_FOLDER, Entry, FileRecord
from xpubuild.supply.mirror.index import read_manifest
from xpubuild.supply.mirror.reading import Damage, walk
from xpubuild.supply.mirror.repositories import is_sound, merged_shallow, records_of
from xpubuild.supply.mirror.writing import Stage

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
        texts = _recallable(known)
        theirs = {record.path: record for record in self.entry.files}
        for record in known.files:
            inside, brought = record.path.removeprefix(f"{known.folder}/"), theirs.get(record.path)
            is_given = brought is not None and (brought == record or inside in ("HEAD", "config"))
            if record.path in lost and not (is_given or record.sha256 in texts or inside.startswith(_SPARE)):
                return self._replaced(known, lost)
        return self._joined(known, lost, theirs, texts)

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

    def _joined(
        self, old: Entry, lost: Collection[str], theirs: dict[str, FileRecord], texts: dict[str, bytes]
    ) -> Entry:
        """Return the entry of both: what is sound stays, and the change keeps only what is not."""
        files = dict(theirs)
        for record in old.files:
            path, staged = record.path, self.change.folder / record.path
            mine = texts.get(record.sha256) if path in lost else b""
            if path.endswith("/shallow"):
                here = (self.root / path).read_bytes() if path not in lost else mine or b""
                # History ends where that of either does.
                text = merged_shallow(here, staged.read_bytes() if staged.exists() else b"")
                staged.unlink(missing_ok=True)
                files[path] = self.change.write(path, text)
                if files[path] == record and path not in lost:
                    staged.unlink()
            elif path not in lost:
                files[path] = record
                staged.unlink(missing_ok=True)
            elif mine is not None and theirs.get(path) != record:
                staged.unlink(missing_ok=True)
                files[path] = self.change.write(path, mine)
        ordered = tuple(files[path] for path in sorted(files))
        return replace(old, files=ordered, pins=tuple(sorted({*old.pins, *self.entry.pins})))


def _recallable(entry: Entry) -> dict[str, bytes]:
    """Return, by its sha256, what a small file of a repository can hold that its commits tell."""
    lines = [f"{pin}\n".encode() for pin in entry.pins]
    return {hashlib.sha256(text).hexdigest(): text for text in (*lines, b"".join(sorted(lines)))}

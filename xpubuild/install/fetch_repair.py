"""Repairs a damaged mirror: only damaged files are downloaded again."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xpubuild.engine.files import explained, remove_tree
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.errors import XpuBuildError
from xpubuild.install.fetch_packages import as_remote, bring
from xpubuild.supply.git.bare import RepositoryStore, remember
from xpubuild.supply.git.git import Git
from xpubuild.supply.mirror.entries import (
    FILES,
    GIT,
    INDEX,
    PAGE,
    PIN_FOLDER,
    Entry,
    EntryError,
    entry_id,
    is_sha256,
)
from xpubuild.supply.mirror.failures import damage_error
from xpubuild.supply.mirror.index import read_manifest
from xpubuild.supply.mirror.needs import set_damages, set_of
from xpubuild.supply.mirror.reading import Damage, scan
from xpubuild.supply.mirror.repositories import is_mutable, is_sound
from xpubuild.supply.mirror.sets import MirrorSet, RepositoryUse
from xpubuild.supply.mirror.store import Mirror

_NAMED = "refs/xpubuild/named/"


@dataclass
class Repair:
    """Repairs ``mirror``, whose lock the caller holds; ``hints`` are tags that have held a commit."""

    mirror: Mirror
    git: Git
    teller: Teller
    cancel: Cancel
    hints: dict[str, str]

    def run(self, damages: Sequence[Damage]) -> None:
        """Repair what ``check`` has found.

        Raises:
            FetchError: what is damaged cannot be had again.
            SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
        """
        by_entry: dict[str, list[Damage]] = {}
        for damage in damages:
            if damage.entry in (INDEX, PAGE):
                self.mirror.rewrite()
                self.teller.notice(f"damaged: {damage}; written again", "warning")
            else:
                by_entry.setdefault(damage.entry, []).append(damage)
        # What lost its entry first: the rest is repaired by what the entries say.
        sound = read_manifest(self.mirror.path).entries
        lost = [name for name in by_entry if name not in sound]
        for identifier in sorted(by_entry, key=lambda name: (name not in lost, name)):
            self._one(identifier, sound.get(identifier), by_entry[identifier])
        self._satisfy_sets()

    def _one(self, identifier: str, entry: Entry | None, damages: Sequence[Damage]) -> None:
        for damage in damages:
            self.teller.notice(f"damaged: {damage}; fetched again", "warning")
        kind, _, name = identifier.partition("-")
        if kind == "git":
            self._repository(identifier, name, entry, damages)
        elif entry is not None and entry.is_file:
            self.mirror.drop(identifier, entry.folder)
            # Wheels have no URL: the fetch that this repair belongs to has pip get its own again.
            if entry.url:
                bring(self.mirror, [as_remote(entry)], self.teller, cancel=self.cancel)
        elif kind == "file" and is_sha256(name):
            self.mirror.drop(identifier)
            if not self.mirror.reenter(name):
                self.mirror.drop(identifier, f"{FILES}/{name}")
        elif entry is not None and _readable(self.mirror, entry) is not None:
            return  # only what it needs is missing: _satisfy_sets
        elif identifier:
            # What an earlier fetch needed cannot be known again; this one writes its own.
            self.mirror.drop(identifier)

    def _satisfy_sets(self) -> None:
        """Bring the commits that the sets need; forget a set whose file nothing names any more."""
        mirror = self.mirror
        for needed in sound_sets(mirror):
            for use in needed.repositories:
                entry = mirror.entry(use.id)
                if entry is None or use.commit not in entry.pins:
                    self._ensure(use.url, use.commit)
                    mirror.note_repository(use.url, use.commit)
        entries = read_manifest(mirror.path).entries.values()
        for damage in list(set_damages(mirror.path, _set_entries(mirror), entries, ())):
            name = damage.entry.partition("-")[2]
            self.teller.notice(f"{damage}; removed: fetch the recipe of {name} again", "warning")
            mirror.drop(damage.entry)

    # --- repositories ----------------------------------------------------------------------------------

    def _repository(self, identifier: str, name: str, entry: Entry | None, damages: Sequence[Damage]) -> None:
        """Keep a repository in which git finds all of it sound, else fetch it again, with all its pins.

        Without an entry, the sets tell which URL and which commits it had; its fetch enters it again.
        """
        known = {record.path for record in entry.files} if entry is not None else set()
        lost = {damage.path for damage in damages} & known
        uses = self._uses(name)
        url = entry.url if entry is not None else next((use.url for use in uses), "")
        pins = list(entry.pins if entry is not None else dict.fromkeys(use.commit for use in uses))
        harmless = all(is_mutable(path.removeprefix(f"{GIT}/{name}/")) for path in lost)
        keeps = harmless and is_sound(self.git, self.mirror.path, name, cancel=self.cancel)
        if keeps:
            pins = [item.name for item in scan(self.mirror.path / GIT / name / PIN_FOLDER)]
        else:
            with self._set_aside(name):
                for commit in pins if url else ():
                    self._ensure(url, commit)
        if entry is None or not keeps:
            self.mirror.drop(identifier)
        if entry is not None:
            self._remember(name, entry)
        if url and pins:
            self.mirror.note_repository(url, pins[0])

    def _uses(self, name: str) -> list[RepositoryUse]:
        uses = (use for needed in sound_sets(self.mirror) for use in needed.repositories)
        return [use for use in uses if use.id == entry_id("git", name)]

    def _ensure(self, url: str, commit: str) -> None:
        mirror = self._store.mirror(url, commit)
        mirror.ensure(commit, ref=self.hints.get(commit), report=self.teller.line)

    @contextlib.contextmanager
    def _set_aside(self, name: str) -> Iterator[None]:
        """Move a damaged repository away; where it cannot be fetched again, it comes back as it was."""
        place = self.mirror.path / GIT / name
        aside = place.with_suffix(".damaged")
        remove_tree(aside)
        with explained(place, "setting a damaged repository aside"):
            if place.exists():
                place.rename(aside)
        try:
            yield
        except XpuBuildError:
            remove_tree(place)
            if aside.exists():
                aside.rename(place)
            raise
        remove_tree(aside)

    def _remember(self, name: str, entry: Entry) -> None:
        """Bring back which tag was at which commit: the index has the hash of what the reference held."""
        prefix = f"{GIT}/{name}/{_NAMED}"
        held = {hashlib.sha256(f"{commit}\n".encode()).hexdigest(): commit for commit in entry.pins}
        for record in entry.files:
            if record.path.startswith(prefix) and record.sha256 in held:
                ref = record.path.removeprefix(prefix)
                remember(self._store, entry.url, ref, held[record.sha256])

    @property
    def _store(self) -> RepositoryStore:
        return self.mirror.git_store(self.git, cancel=self.cancel)


def sound_sets(mirror: Mirror) -> list[MirrorSet]:
    """Return the sets of a mirror that are not damaged."""
    return [needed for entry in _set_entries(mirror) if (needed := _readable(mirror, entry)) is not None]


def _set_entries(mirror: Mirror) -> list[Entry]:
    return [entry for entry in read_manifest(mirror.path).entries.values() if entry.kind == "set"]


def _readable(mirror: Mirror, entry: Entry) -> MirrorSet | None:
    try:
        return set_of(mirror.path, entry)
    except EntryError:
        return None


def require_sound(mirror: Mirror, damages: Sequence[Damage]) -> None:
    """Reject a damaged mirror.

    Raises:
        SourceIntegrityError: there is damage; the message names it.
    """
    if damages:
        raise damage_error(mirror.path, list(damages))


def checked(mirror: Mirror, teller: Teller, only: Collection[str] | None = None) -> list[Damage]:
    """Verify every file of a mirror, or of some entries, and report progress; return the damage."""
    teller.expect(sum(entry.size for entry in read_manifest(mirror.path).entries.values()))
    return mirror.check(only, teller.count)

"""The local copy of a mirror on a server: an ordinary mirror folder with what the current recipe needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from xpubuild.engine.files import explained, remove_tree
from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError, SourceIntegrityError, XpuBuildError
from xpubuild.supply.mirror.check import check
from xpubuild.supply.mirror.entries import MARK, PAGE, Entry, FileRecord
from xpubuild.supply.mirror.index import read_manifest
from xpubuild.supply.mirror.reading import compare
from xpubuild.supply.mirror.remote.choose import choose, look, set_ids
from xpubuild.supply.mirror.remote.failures import damaged_there, is_unreachable
from xpubuild.supply.mirror.remote.transport import Count, Remote, is_here
from xpubuild.supply.mirror.repositories import is_plain
from xpubuild.supply.mirror.store import DOWNLOADS, Mirror
from xpubuild.supply.mirror.writing import Stage

#: How often a mirror that changes while it is read is looked at anew.
_TRIES = 3
_SETTINGS = ("HEAD", "config")


class Telling(Protocol):
    """What hears how far a copy is."""

    def bringing(self, size: int) -> AbstractContextManager[Count]:
        """Begin to bring ``size`` bytes; the result is told of each part."""
        ...

    def notice(self, text: str, level: str = "info") -> None:
        """Tell something to the user."""
        ...


def bring_copy(
    remote: Remote, into: Path, recipe: str | None, *, telling: Telling, cancel: Cancel | None = None
) -> Path:
    """Make the folder ``into`` a mirror with what ``recipe`` needs of a served one; return the folder.

    Where the served mirror has no set of the recipe, or None is named, all of it is copied. A server that
    cannot be reached is only told of where the copy has all that the recipe needs, sound.

    Raises:
        FetchError: the server cannot be reached, there is no mirror, or it lacks something.
        SourceIntegrityError: a file on the server is not what its index says; nothing of it is used.
        UsageError: ``into`` is somebody's folder.
        NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    copy = _Copy(remote, into, telling, cancel or Cancel())
    try:
        index = look(remote)
    except FetchError as error:
        if not is_unreachable(error) or recipe is None or not is_complete(into, recipe):
            raise
        telling.notice(f"{error.what} ({error.why}); its local copy is used: {into}", "warning")
        return into
    for left in reversed(range(_TRIES)):
        try:
            copy.update(index, recipe)
        except (FetchError, SourceIntegrityError):
            # A fetch into the mirror that ends while it is read here changes what was listed.
            now = look(remote) if left else index
            if now == index:
                raise
            index = now
        else:
            break
    return into


def is_complete(root: Path, recipe: str) -> bool:
    """Whether a copy has sets of a recipe, and all that they need, sound."""
    try:
        mirror = Mirror.open(root)
        sets = {needed.name: needed for needed in mirror.sets()}
        names = set_ids(read_manifest(root).entries, recipe)
        chosen = [sets[name.removeprefix("set-")] for name in names]
        return bool(names) and not check(
            root, only={MARK, PAGE, *names, *(need for one in chosen for need in one.needs)}
        )
    except XpuBuildError:
        return False


@dataclass
class _Copy:
    remote: Remote
    root: Path
    telling: Telling
    cancel: Cancel

    def update(self, index: Mapping[str, Entry], recipe: str | None) -> None:
        """Bring what the copy lacks of the mirror with these entries."""
        entries = choose(self.remote, self.root, index, recipe)
        if not self._todo(entries) and not self._strays(index):
            return
        mirror = Mirror.open(self.root, create=True)
        with mirror.writing(cancel=self.cancel, report=self.telling.notice):
            # Another process may have brought it meanwhile; what remains is told with its size.
            for name in self._strays(index):
                mirror.drop(name)
            todo = self._todo(entries)
            if todo:
                self._bring(mirror, entries, todo)

    def _todo(self, entries: Mapping[str, Entry]) -> dict[str, list[FileRecord]]:
        """Return what is lacking or damaged, by entry; one whose entry alone is old has no files."""
        here = read_manifest(self.root).entries
        found = {}
        for name, entry in entries.items():
            lacking = [record for record in entry.files if compare(self.root, record)]
            if lacking or here.get(name) != entry:
                found[name] = lacking
        return found

    def _strays(self, index: Mapping[str, Entry]) -> set[str]:
        """Return what cannot stay: sets that the served mirror has no more, a damaged index or page.

        An old set may need commits that a repository which was made anew does not have.
        """
        manifest = read_manifest(self.root)
        sets = [entry for entry in manifest.entries.values() if entry.kind == "set"]
        lost = {entry.id for entry in sets if entry.id not in index or compare(self.root, entry.files[0])}
        lost |= {damage.entry for damage in manifest.damages}
        return lost | {item.entry for item in check(self.root, only={MARK, PAGE}) if self.root.exists()}

    def _bring(
        self, mirror: Mirror, entries: Mapping[str, Entry], todo: Mapping[str, list[FileRecord]]
    ) -> None:
        into = self.root / DOWNLOADS
        with explained(into, "fetching a mirror"):
            into.mkdir(exist_ok=True)
        every = {record.sha256: record for records in todo.values() for record in records}
        with self.telling.bringing(sum(record.size for record in every.values())) as count:
            lacking = [record for record in every.values() if not is_here(into, record)]
            for record in every.values():
                if record not in lacking:
                    count(record.size, record.path)
            self.remote.bring(lacking, into, count)
            # All at once: a copy that has a set has everything that the recipe needs.
            with mirror.stage() as change:
                uses = Counter(record.sha256 for records in todo.values() for record in records)
                for name, records in todo.items():
                    for record in records:
                        self._take(change, record, uses)
                    if entries[name].kind == "git":
                        self._require_harmless(change, entries[name])
                    change.enter(entries[name])
                change.publish()
        remove_tree(into)

    def _take(self, change: Stage, record: FileRecord, uses: Counter[str]) -> None:
        source = self.root / DOWNLOADS / record.sha256
        uses[record.sha256] -= 1
        put: Callable[[str, Path], FileRecord] = change.copy if uses[record.sha256] else change.take
        if put(record.path, source) != record:
            raise damaged_there(self.remote.location, record.path, "it changed after it was fetched")

    def _require_harmless(self, change: Stage, entry: Entry) -> None:
        """Refuse a repository whose settings could change what git does."""
        for path in (f"{entry.folder}/{name}" for name in _SETTINGS):
            if not (change.folder / path).exists() and (self.root / path).is_file():
                change.copy(path, self.root / path)
        if not is_plain(change.folder / entry.folder):
            raise damaged_there(
                self.remote.location, f"{entry.folder}/config", "it has settings that a mirror must not have"
            )

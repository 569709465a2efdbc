"""A depot on a static web server: read as a store of wheels, or copied to a depot in the user's cache.

Proxies, certificates and logins are those of pip. A server is only read.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from xpubuild.engine.events import Sink
from xpubuild.engine.files import explained, remove_tree
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import FetchError, SourceIntegrityError, XpuBuildError
from xpubuild.supply.depot.entries import INDEX, EntryError, FileRecord, Index, index_of, read_index
from xpubuild.supply.depot.examine import damages, write_derived
from xpubuild.supply.depot.folder import MOST_BYTES, Damage, Depot, compare
from xpubuild.supply.depot.location import Location, Trust
from xpubuild.supply.depot.record import Record, RecordError, read_record, record_path
from xpubuild.supply.git.git import locked
from xpubuild.supply.index.transfer import Session, download, in_threads
from xpubuild.untrusted import UntrustedError, read_bytes

#: Gets how many bytes more are here, and of which file; a negative number when some are discarded.
Count = Callable[[int, str], None]

_ABSENT, _CLOSED = frozenset({404, 410}), frozenset({401, 403, 407})
_SERVER_FAILS = 500
_AGAIN = "run the same command again; what was fetched is kept"


class Served:
    """The depot at ``location``, reached by pip's settings; ``trust`` says whether to believe its wheels."""

    own = False

    def __init__(
        self, location: Location, trust: Trust | None = None, *, cancel: Cancel | None = None
    ) -> None:
        self.location, self._trust, self._cancel = location, trust or Trust(), cancel

    @functools.cached_property
    def _hasty(self) -> Session:
        # A server that is out of reach must show soon: there may be a copy that is good enough.
        return Session(retries=1)

    @property
    def name(self) -> str:
        """The depot as messages name it, without a login."""
        return self.location.url

    def why_not(self) -> str:
        """Return why its wheels must not be used, "" where they may be."""
        return self._trust.why_not(self.location, ())

    def look(self, dist: str, key: str) -> Record | None:
        """Return the record of a build, None where there is none.

        Raises:
            SourceIntegrityError: there is something else under its name.
            FetchError: the server does not answer.
        """
        path = record_path(dist, key)
        data = self.read(path)
        try:
            return None if data is None else read_record(data, dist, key)
        except RecordError as error:
            raise self.damaged(path, str(error)) from None

    def bring(self, record: Record, into: Path) -> Path:
        """Put the wheel of a record into a folder under its own name, every byte of it hashed.

        Raises:
            SourceIntegrityError: it is not the wheel that was kept.
            FetchError: it did not come.
            NoSpaceError, ToolchainError: the folder cannot be written.
        """
        wanted = FileRecord(record.wheel_path, record.size, record.sha256)
        with explained(into, "taking a wheel from the store"), scratch_folder("store", into) as folder:
            self.fetch([wanted], folder, lambda *_: None)
            return (folder / wanted.path).rename(into / record.file)

    def index(self) -> Index:
        """Return what the depot lists.

        Raises:
            FetchError: the server does not answer, or there is no depot.
            SourceIntegrityError: the index is damaged.
        """
        data = self.read(INDEX)
        if data is None:
            raise self._failed(
                f"{self.location} is not a mirror",
                f"it has no {INDEX}, and over http nothing else lists it",
                "check the URL; if it is right, run 'xpubuild fetch RECIPE --mirror DIR' on the server",
                "no-mirror",
            )
        try:
            return read_index(data)
        except EntryError as error:
            raise self.damaged(INDEX, str(error)) from None

    def read(self, path: str) -> bytes | None:
        """Return the content of a small file, None where there is none.

        Raises:
            FetchError: the server does not answer (reason: unreachable), or refuses.
        """
        link, name = self._link(path), path.rpartition("/")[2]
        with scratch_folder("served") as folder:
            try:
                file = download(
                    link, None, folder, name, size=MOST_BYTES, cancel=self._cancel, session=self._hasty
                )
                return read_bytes(file, MOST_BYTES)
            except UntrustedError as error:
                raise self._lacks(path, str(error)) from None
            except FetchError as error:
                status, why = error.evidence["status"], error.why
        if status in _ABSENT:
            return None
        if status in _CLOSED:
            fix = "put user and password in the URL or in ~/.netrc (NETRC), or fix its permissions"
            raise self._failed(f"access to the mirror {self.location} was denied", why, fix, "refused")
        if status is not None and status < _SERVER_FAILS:
            raise self._lacks(path, why)
        fix = f"check the name, the network and the proxy (HTTPS_PROXY, NO_PROXY), then {_AGAIN}"
        raise self._failed(f"the mirror {self.location} cannot be reached", why, fix, "unreachable")

    def fetch(self, records: Sequence[FileRecord], root: Path, count: Count) -> None:
        """Download each file to its place below ``root``, every byte of it verified; several at a time.

        Raises:
            FetchError: one could not be fetched.
            SourceIntegrityError: one is not what its record says; names it.
            NoSpaceError, ToolchainError, InterruptedByUserError.
        """
        session = Session()

        def fetch(record: FileRecord) -> None:
            folder, _, name = record.path.rpartition("/")
            try:
                download(
                    self._link(record.path), record.sha256, root / folder, name, size=record.size,
                    on_bytes=lambda more: count(more, record.path), cancel=self._cancel, session=session,
                )  # fmt: skip
            except FetchError as error:
                raise self._lacks(record.path, error.why) from None
            except SourceIntegrityError as error:
                raise self.damaged(record.path, error.why) from None

        in_threads(fetch, records, self._cancel)

    def _link(self, path: str) -> str:
        return f"{self.location.link}/{quote(os.fsencode(path))}"

    def _lacks(self, path: str, why: str) -> FetchError:
        what = f"{path} could not be fetched from the mirror {self.location}"
        fix = f"check the server that serves the mirror, then {_AGAIN}"
        return self._failed(what, why, fix, "not-fetched")

    def _failed(self, what: str, why: str, fix: str, reason: str) -> FetchError:
        evidence = {"reason": reason, "mirror": self.location.url}
        return FetchError(what, why=why, fix=fix, evidence=evidence)

    def damaged(self, path: str, why: str) -> SourceIntegrityError:
        """Return the error of a file that is not what the index of the depot says."""
        return SourceIntegrityError(
            f"the mirror {self.location} is damaged: {path}",
            why=why,
            fix="repair it on the server: the first command below lists all damage, and a fetch with a "
            "network repairs it; this file was not used",
            commands=("xpubuild check DIR", "xpubuild fetch RECIPE --mirror DIR"),
            evidence={"mirror": self.location.url, "damaged": [vars(Damage(path, "is damaged", why))]},
        )


def local_copy(
    served: Served, into: Path, recipe: str, *, sink: Callable[[], Sink], cancel: Cancel | None = None
) -> Path:
    """Make the folder ``into`` a depot with what ``recipe`` needs of a served one; return the folder.

    Where the served depot has no set of the recipe, all of it is copied. A server that cannot be reached is a
    warning where the copy has all that the recipe needs, undamaged. ``sink`` makes one where there is
    something to show.

    Raises:
        FetchError: the server cannot be reached, there is no depot, or it lacks something.
        SourceIntegrityError: a file on the server is not what its index says; nothing of it is used.
        UsageError: ``into`` is somebody's folder.
        NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    try:
        index = served.index()
    except FetchError as error:
        kept = _part(_here(into), recipe)
        if error.evidence["reason"] != "unreachable" or not (kept.sets and _has(into, kept)):
            raise
        _notice(sink, f"{error.what} ({error.why}); its local copy is used: {into}", "warning")
        return into
    # What is listed now stays there, also while somebody fetches into the depot.
    wanted = _chosen(served, index, recipe)
    if not _has(into, wanted):
        depot = Depot.open(into, create=True, damaged=True)
        with depot.writing(cancel=cancel, report=lambda text: _notice(sink, text)):
            if not _has(into, wanted):  # another process may have fetched it meanwhile
                _fill(served, depot, wanted, index, sink)
    return into


def _here(root: Path) -> Index:
    """Return what a copy lists; nothing where there is none, or its index is damaged."""
    with contextlib.suppress(XpuBuildError):
        return Depot.open(root).index()
    return Index()


def _part(index: Index, recipe: str) -> Index:
    """Return the sets of a recipe, and of what they need that which is listed."""
    sets = index.of(recipe)
    needed = set().union(*(one.needs for one in sets))
    return index_of((index.entries[name] for name in needed & index.entries.keys()), sets)


def _fill(served: Served, depot: Depot, wanted: Index, index: Index, sink: Callable[[], Sink]) -> None:
    root, entries = depot.path, wanted.entries.values()
    lacking = [record for entry in entries for record in entry.files if compare(root, record)]
    for record in lacking:
        remove_tree(root / record.path)  # damaged, or a way to another file
    with contextlib.closing(sink()) as shown:
        teller, url, title = Teller(shown), served.location.url, f"copying from {served.location}"
        with teller.run("mirror", url, [("mirror", title)]), teller.doing("mirror", title):
            teller.expect(sum(record.size for record in lacking))
            served.fetch(lacking, root, teller.count)
    with explained(root, "copying a mirror"):
        for entry in entries:
            if entry.kind == "git":
                with locked((root / entry.id).with_suffix(".lock")):
                    write_derived(root, entry)
    here = depot.listed()
    # What the server does not have any more may need commits that its repositories have lost.
    kept = [one for name, one in here.sets.items() if name in index.sets]
    depot.publish(index_of((*here.entries.values(), *entries), (*kept, *wanted.sets.values())))
    for gone in here.sets.keys() - {one.name for one in kept} - wanted.sets.keys():
        remove_tree(root / here.sets[gone].path)


def _notice(sink: Callable[[], Sink], text: str, level: str = "info") -> None:
    with contextlib.closing(sink()) as shown:
        Teller(shown).notice(text, level)


def _chosen(served: Served, index: Index, recipe: str) -> Index:
    """Return the part of an index that the sets of a recipe need; all of it where there are none."""
    part = _part(index, recipe)
    for one in part.sets.values():
        for use in one.repositories:
            if not index.has(use):
                raise served.damaged(INDEX, f"{one.name} needs {use.commit} of {use.url}, which it lacks")
        for name in sorted(one.needs - part.entries.keys()):
            raise served.damaged(INDEX, f"{one.name} needs {name}, which it lacks")
    return part if part.sets else index


def _has(root: Path, wanted: Index) -> bool:
    """Whether a copy lists all of ``wanted``, undamaged."""
    here = _here(root)
    listed = wanted.entries.items() <= here.entries.items() and wanted.sets.items() <= here.sets.items()
    whole = all(one.needs <= wanted.entries.keys() for one in wanted.sets.values())
    return listed and whole and not damages(Depot(root), wanted.entries.keys())

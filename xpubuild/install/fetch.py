"""``fetch`` as a library: download the external inputs of a build into a depot, list them there last."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from xpubuild.documents import plain
from xpubuild.engine.events import Sink
from xpubuild.engine.files import remove_tree
from xpubuild.engine.fingerprint import digest
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.errors import FetchError, SourceIntegrityError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.install.fetch_packages import (
    archive_files,
    as_remote,
    conda_files,
    entry_of,
    fetch_files,
    fetch_wheels,
    keep_conda_lock,
    lacking,
    needs_of,
    wheels_here,
)
from xpubuild.install.fetch_sources import Tree, missing_repositories, open_archives, trees
from xpubuild.install.planner import Inputs
from xpubuild.install.wanted import Wanted
from xpubuild.supply.depot.bytes import Damage
from xpubuild.supply.depot.entries import (
    DepotSet,
    Entry,
    Index,
    RepositoryUse,
    described,
    index_of,
    is_ref,
)
from xpubuild.supply.depot.examine import damages, is_indexed, relisted
from xpubuild.supply.depot.folder import Depot, damage_error
from xpubuild.supply.depot.repositories import list_repository, named_in, pins_in, set_aside
from xpubuild.supply.git.bare import RepositoryStore, remember
from xpubuild.supply.git.git import Git
from xpubuild.supply.index.files import RemoteFile

SCHEMA = "xpubuild.fetch/1"
_PACKAGES = "Python and conda packages, archives"
_CHECK = "files in the mirror"
_FILE = ("kind", "name", "dist", "version", "sha256", "size", "url")


@frozen
class Fetch:
    """One fetch into the depot at ``path``."""

    path: Path
    wanted: Wanted
    sink: Sink
    cancel: Cancel
    offline: bool = False
    git: Git = field(default_factory=Git.open)

    @property
    def inputs(self) -> Inputs:
        """What is fetched."""
        return self.wanted.inputs

    @property
    def _remote_files(self) -> list[RemoteFile]:
        return [*conda_files(self.wanted.conda_lock), *archive_files(self.inputs)]

    def run(self) -> dict[str, Any]:
        """Repair the depot, download missing files, and return the ``xpubuild.fetch/1`` document.

        Offline, nothing is downloaded or repaired: everything must be present and valid.

        Raises:
            FetchError: something cannot be had; offline: it is not here.
            SourceIntegrityError: what came is not what was asked for; offline: the depot is damaged.
            UsageError, NoSpaceError, RecipeError, ToolchainError, InterruptedByUserError.
        """
        if self.offline:
            return self._look()
        depot, teller = Depot.open(self.path, create=True, damaged=True), Teller(self.sink)
        with (
            teller.run(self.inputs.recipe, str(self.path), list(self._steps())),
            depot.writing(cancel=self.cancel, report=teller.notice),
        ):
            with teller.doing("check", _CHECK):
                found = _checked(depot, teller)
                for damage in found:
                    teller.notice(f"damaged: {damage}; repaired or fetched again", "warning")
                before = relisted(depot, found, self.git, self.cancel) if found else depot.index()
            store, found_trees = depot.git_store(self.git, cancel=self.cancel), list[Tree]()
            try:
                with set_aside(self.path, before.entries):
                    self._fetch_sources(store, found_trees, teller)
                    notes = [tree.note for tree in found_trees if tree.pin is None]
                    unknown = [*notes, *open_archives(self.inputs, teller)]
                    with teller.doing("packages", _PACKAGES):
                        files = self._fetch_files(depot, before, teller)
                    uses = [use for tree in found_trees for use in tree.uses()]
                    needed = self._set(uses, files)
                    others = self._satisfy(depot, before, files, store, teller)
            except XpuBuildError:
                if not found:
                    # A repository that was listed, and has more objects now.
                    uses = [use for tree in found_trees for use in tree.uses()]
                    more = [use for use in uses if use.id in before.entries]
                    depot.publish(self._listed(before, more))
                raise
            sets = (*others.sets.values(), needed)
            files = [*before.entries.values(), *others.entries.values(), *files]
            after = self._listed(index_of(files, sets), [use for one in sets for use in one.repositories])
            depot.publish(after)
        fetched = {url for tree in found_trees for url in tree.fetched}
        return self._document(
            "fetch",
            set=needed.name,
            repositories=[{**plain(use), "new": use.url in fetched} for use in needed.repositories],
            files=[_file_row(entry, before) for entry in needed.files],
            unknown=unknown,
            damaged=plain(tuple(found)),
            summary=_totals(after, before),
        )

    def _document(self, action: str, **parts: Any) -> dict[str, Any]:
        wanted = self.wanted
        words = {"recipe": wanted.inputs.recipe, "pythons": list(wanted.pythons), "status": "ok"}
        return _document(action, self.path, **words, **parts)

    def _steps(self) -> Iterable[tuple[str, str]]:
        yield "check", _CHECK
        for item in self.inputs.repositories:
            yield f"{item.component}.source", f"{item.component} at {item.pin.commit[:12]}"
        yield "packages", _PACKAGES

    def _fetch_sources(self, store: RepositoryStore, found: list[Tree], teller: Teller) -> None:
        for item in self.inputs.repositories:
            with teller.doing(f"{item.component}.source", f"{item.component} at {item.pin.commit[:12]}"):
                for tree in trees(item, store, teller.line):
                    found.append(tree)
                    if tree.pin is None:
                        teller.notice(f"{tree.note}; it cannot be fetched", "warning")
                for (url, ref), commit in self.wanted.named.items():
                    if (url, commit) == (item.pin.url, item.pin.commit):
                        remember(store, url, ref, commit)

    def _fetch_files(self, depot: Depot, before: Index, teller: Teller) -> list[Entry]:
        present, lock, cancel = before.files(), self.wanted.conda_lock, self.cancel
        entries = fetch_wheels(depot, self.inputs, self.wanted.pythons, present, teller, cancel=cancel)
        entries += fetch_files(depot, self._remote_files, present, teller, cancel=cancel)
        return entries + ([keep_conda_lock(depot, self.inputs.recipe, lock)] if lock is not None else [])

    def _set(self, uses: Collection[RepositoryUse], files: Collection[Entry]) -> DepotSet:
        ordered = sorted(set(uses), key=lambda use: (use.component, use.configure_time, use.url, use.path))
        return DepotSet(
            recipe=self.inputs.recipe,
            pythons=self.wanted.pythons,
            repositories=tuple(ordered),
            files=tuple({entry.id: entry for entry in files}.values()),
            inputs=_inputs_digest(self.inputs, self.wanted.conda_lock),
        )

    def _satisfy(
        self, depot: Depot, before: Index, files: Iterable[Entry], store: RepositoryStore, teller: Teller
    ) -> Index:
        """Fetch what the sets of earlier fetches lack; leave those out of which a file has no origin."""
        lost: dict[str, Entry] = {}
        here, sets = {*before.entries, *(entry.id for entry in files)}, []
        for one in before.sets.values():
            gone = [entry for entry in one.files if entry.id not in here]
            if any(not entry.url for entry in gone):
                what = f"a file of {one.path} is lost, and it is not known where it came from"
                teller.notice(f"{what}; removed: fetch {one.recipe} again", "warning")
                remove_tree(self.path / one.path)
                continue
            lost |= {entry.id: entry for entry in gone}
            sets.append(one)
            for use in one.repositories:
                entry = before.entries.get(use.id)
                if entry is None or use.commit not in entry.pins:
                    repository = store.mirror(use.url, use.commit)
                    repository.ensure(use.commit, ref=use.ref, report=teller.line)
        remotes = [as_remote(entry) for entry in lost.values()]
        fetched = fetch_files(depot, remotes, (), teller, cancel=self.cancel)
        return index_of(fetched, sets)

    def _listed(self, index: Index, uses: Iterable[RepositoryUse]) -> Index:
        """Return an index with the repositories of ``uses`` as they are now."""
        by_id: dict[str, list[RepositoryUse]] = {}
        for use in uses:
            by_id.setdefault(use.id, []).append(use)
        entries = dict(index.entries)
        for identifier, its in by_id.items():
            name = identifier.partition("-")[2]
            tags = ((use.ref, use.commit) for use in its if use.ref and is_ref(use.ref))
            named, pins = (*tags, *named_in(self.path, name)), tuple(pins_in(self.path, name))
            sketch = Entry("git", name, (), its[0].url, pins=pins, named=named)
            entry = list_repository(self.path, sketch, entries.get(identifier))
            if entry is not None:
                entries[identifier] = entry
        return replace(index, entries=entries)

    # --- without changing anything -----------------------------------------------------------------------

    def _look(self) -> dict[str, Any]:
        depot, teller = Depot.open(self.path), Teller(self.sink)
        with (
            teller.run(self.inputs.recipe, str(self.path), [("check", _CHECK)]),
            teller.doing("check", _CHECK),
        ):
            found = _checked(depot, teller)
            if found:
                raise damage_error(self.path, found)
            files = self._require_here(depot)
        index = depot.index()
        return self._document(
            "fetch", files=[_file_row(entry, index) for entry in files], summary=_totals(index, index)
        )

    def _require_here(self, depot: Depot) -> list[Entry]:
        store = depot.git_store(self.git, offline=True, cancel=self.cancel)
        for use in missing_repositories(store, self.inputs):
            raise self._lacks(
                f"{use.url} at {use.commit or use.ref}",
                f"{use.component} needs it, but it was not fetched",
                {"url": use.url, "commit": use.commit or None},
            )
        present, found = depot.files(), list[Entry]()
        wheels = wheels_here(depot, self.inputs, self.wanted.pythons)
        for file in self._remote_files:
            entry = entry_of(present, file)
            if entry is None:
                why = f"it was not fetched from {file.url}"
                raise self._lacks(file.filename, why, {"sha256": file.sha256, "url": file.url})
            found.append(entry)
        named = sorted((entry for entry in present if entry.sha256 in wheels), key=lambda entry: entry.name)
        return named + found

    def _lacks(self, what: str, why: str, evidence: Mapping[str, Any]) -> FetchError:
        place, recipe = shlex.quote(str(self.path)), shlex.quote(self.inputs.recipe)
        return FetchError(
            f"{what} is not in the mirror {self.path}",
            why=why,
            fix="fetch the recipe on a machine with a network",
            commands=(f"xpubuild fetch {recipe} --mirror {place}",),
            evidence={"reason": "offline", "mirror": str(self.path), **evidence},
        )

    def dry_run(self) -> dict[str, Any]:
        """Return what a fetch would download, as far as it is not in the depot; nobody is asked for it.

        Raises:
            SourceIntegrityError, UsageError, RecipeError, ToolchainError, InterruptedByUserError.
        """
        index = Depot.open(self.path).index() if is_indexed(self.path) else Index()
        store = Depot(self.path).git_store(self.git, offline=True, cancel=self.cancel)
        files = [file for file in self._remote_files if entry_of(index.files(), file) is None]
        wheels = [
            need
            for needs in needs_of(self.inputs, self.wanted.pythons)
            for need in lacking(index.files(), needs)
        ]
        rows = []
        for use in missing_repositories(store, self.inputs):
            at = {"commit": use.commit or None, "ref": use.ref, "component": use.component, "path": use.path}
            rows.append(_missing("git", use.url, use.url, **at))
        # Which file of it pip will choose is not known; two requirement files may have one pin.
        names = (f"{need.pin.name}=={need.pin.version} for Python {need.python}" for need in wheels)
        rows += [_missing("wheel", name) for name in dict.fromkeys(names)]
        for file in files:
            kind = "archive" if file.is_archive else described(file.filename)[0]
            rows.append(_missing(kind, file.filename, file.url, sha256=file.sha256, size=file.size))
        missing_bytes = sum(file.size or 0 for file in files)
        return self._document("dry-run", missing=rows, summary=_totals(index, index, missing_bytes))


def check_mirror(path: Path, *, sink: Sink, cancel: Cancel | None = None) -> dict[str, Any]:
    """Verify every file of a depot, and return the document.

    Raises:
        SourceIntegrityError: something is damaged; the error carries the document.
        FetchError: there is no depot.
    """
    depot, teller = Depot.open(path, damaged=True), Teller(sink, cancel=cancel)
    with teller.run("mirror", str(path), [("check", "all files")]), teller.doing("check", "all files"):
        index = Index()
        with contextlib.suppress(SourceIntegrityError):
            index = depot.index()
        damaged = _checked(depot, teller)
        found = _document("check", path, damaged=plain(tuple(damaged)), summary=_totals(index, index))
        if damaged:
            error = damage_error(path, damaged)
            error.document = {**found, "status": "error", "error": error.to_json()}
            raise error
    return {**found, "status": "ok"}


def _checked(depot: Depot, teller: Teller) -> list[Damage]:
    """Return the damage of a depot, and show how far the check is."""
    with contextlib.suppress(SourceIntegrityError):
        teller.expect(sum(entry.size for entry in depot.index().entries.values()))
    return damages(depot, progress=teller.count)


def _document(action: str, depot: Path, **parts: Any) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "action": action,
        "mirror": str(depot),
        "recipe": None,
        "pythons": [],
        "set": None,
        "repositories": [],
        "files": [],
        "unknown": [],
        "damaged": [],
        "missing": [],
        **parts,
    }


def _missing(kind: str, name: str, url: str = "", **known: Any) -> dict[str, Any]:
    unknown = dict.fromkeys(("commit", "ref", "component", "path", "sha256", "size"))
    return {"kind": kind, "name": name, "url": url, **unknown, **known}


def _inputs_digest(inputs: Inputs, conda_lock: str | None) -> str:
    """Return a digest of the external inputs of a build."""
    return digest(
        {
            "repositories": [
                {
                    "component": item.component,
                    "url": item.pin.url,
                    **item.pin.key(),
                    "configure_time": [entry.model_dump() for entry in item.configure_time],
                }
                for item in inputs.repositories
            ],
            "requirements": [[item.name, item.text] for item in inputs.requirements],
            "wheels": [[item.component, item.dist, item.version] for item in inputs.wheels],
            # Not the hash: a recipe often has none where a lock of it does.
            "archives": [[item.key, item.url] for item in inputs.archives],
            "conda": conda_lock,
        }
    )


def _file_row(entry: Entry, before: Index) -> dict[str, Any]:
    """Return a file that is needed; ``new`` where it was not listed before."""
    row = {
        name: getattr(entry, name) for name in ("kind", "name", "dist", "version", "sha256", "size", "url")
    }
    return {**row, "new": entry.id not in before.entries}


def _totals(index: Index, before: Index, missing_bytes: int = 0) -> dict[str, int]:
    """Return how much there is, and how much of it was not listed ``before``."""
    old = before.entries
    new = [entry for name, entry in index.entries.items() if old.get(name) != entry]
    new_bytes = sum(entry.size - (old[entry.id].size if entry.id in old else 0) for entry in new)

    def counts(entries: Sequence[Entry], prefix: str = "") -> dict[str, int]:
        repositories = sum(entry.kind == "git" for entry in entries)
        return {f"{prefix}repositories": repositories, f"{prefix}files": len(entries) - repositories}

    every = list(index.entries.values())
    return {
        **counts(every),
        "bytes": sum(entry.size for entry in every),
        **counts(new, "new_"),
        "new_bytes": max(0, new_bytes),
        "missing_bytes": missing_bytes,
    }

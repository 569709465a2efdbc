"""``fetch`` as a library: download the external inputs of a build into a mirror."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from xpubuild.documents import plain
from xpubuild.engine.events import Sink
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.errors import FetchError
from xpubuild.frozen import frozen
from xpubuild.install.fetch_archives import open_archives
from xpubuild.install.fetch_documents import (
    document,
    file_row,
    inputs_digest,
    missing_file,
    missing_repository,
    missing_wheel,
    repository_row,
    totals,
)
from xpubuild.install.fetch_packages import (
    archive_files,
    bring,
    bring_wheels,
    conda_files,
    entry_of,
    keep_conda_lock,
    lacking,
    missing_files,
    needs_of,
    wheels_here,
)
from xpubuild.install.fetch_repair import Repair, checked, require_sound
from xpubuild.install.fetch_sources import bring_sources, missing_repositories
from xpubuild.install.planner import Inputs
from xpubuild.install.wanted import Wanted
from xpubuild.supply.git.git import Git
from xpubuild.supply.index.files import RemoteFile
from xpubuild.supply.mirror.entries import INDEX, MARK, PAGE, Entry, entry_id
from xpubuild.supply.mirror.failures import damage_error
from xpubuild.supply.mirror.index import read_manifest
from xpubuild.supply.mirror.reading import Damage
from xpubuild.supply.mirror.sets import MirrorSet, RepositoryUse
from xpubuild.supply.mirror.store import Mirror

_PACKAGES = "Python and conda packages, archives"


@frozen
class Fetch:
    """One fetch into the mirror at ``path``."""

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
    def conda_lock(self) -> str | None:
        """The text of the conda-lock.yml whose packages are fetched too."""
        return self.wanted.conda_lock

    def run(self) -> dict[str, Any]:
        """Repair the mirror, download missing files, and return the ``xpubuild.fetch/1`` document.

        Offline, nothing is downloaded or repaired: everything must be present and valid.

        Raises:
            FetchError: something cannot be had; offline: it is not here.
            SourceIntegrityError: what came is not what was asked for; offline: the mirror is damaged.
            UsageError, NoSpaceError, RecipeError, ToolchainError, InterruptedByUserError.
        """
        if self.offline:
            return self._look()
        mirror, teller = Mirror.open(self.path, create=True), Teller(self.sink)
        with (
            teller.run(self.inputs.recipe, str(self.path), list(self._steps())),
            mirror.writing(cancel=self.cancel, report=teller.notice),
        ):
            damages = self._repair(mirror, teller)
            before = mirror.entries()
            store = mirror.git_store(self.git, cancel=self.cancel)
            sources = bring_sources(mirror, store, self.inputs, self.wanted.named, teller)
            unknown = [*(item.note for item in sources.unknown), *open_archives(self.inputs, teller)]
            with teller.doing("packages", _PACKAGES):
                files = self._bring_files(mirror, teller)
            needed = self._set(sources.uses, [entry.sha256 for entry in files])
            mirror.add_set(needed)
            after = mirror.entries()
            new = {name for name, entry in after.items() if before.get(name) != entry}
            # What was here has been looked at; what came is read once more, from its place.
            require_sound(mirror, mirror.check(new))
        return self._document(
            "fetch",
            set=needed.name,
            repositories=[repository_row(use, sources.fetched) for use in needed.repositories],
            files=[file_row(entry, before) for entry in files],
            unknown=unknown,
            damaged=plain(tuple(damages)),
            summary=totals(after.values(), before),
        )

    def _document(self, action: str, **parts: Any) -> dict[str, Any]:
        wanted = self.wanted
        return document(
            action, self.path, recipe=wanted.inputs.recipe, pythons=wanted.pythons, status="ok", **parts
        )

    def _steps(self) -> Iterable[tuple[str, str]]:
        yield "check", "files in the mirror"
        for item in self.inputs.repositories:
            yield f"{item.component}.source", f"{item.component} at {item.pin.commit[:12]}"
        yield "packages", _PACKAGES

    def _repair(self, mirror: Mirror, teller: Teller) -> list[Damage]:
        with teller.doing("check", "files in the mirror"):
            damages = checked(mirror, teller)
            if damages:
                hints = {item.pin.commit: item.pin.ref for item in self.inputs.repositories if item.pin.ref}
                Repair(mirror, self.git, teller, self.cancel, hints).run(damages)
        return damages

    # --- packages ----------------------------------------------------------------------------------------

    def _bring_files(self, mirror: Mirror, teller: Teller) -> list[Entry]:
        wheels = bring_wheels(mirror, self.inputs, self.wanted.pythons, teller, cancel=self.cancel)
        files = self._remote_files()
        if files:
            bring(mirror, files, teller, cancel=self.cancel)
        lock = keep_conda_lock(mirror, self.inputs.recipe, self.conda_lock)
        present = mirror.files()
        by_hash = {entry.sha256: entry for entry in present}
        found = [by_hash.get(file.sha256 or "") or entry_of(present, file) for file in files]
        found += [by_hash[lock]] if lock is not None else []
        return [*_named(mirror, wheels), *(entry for entry in found if entry is not None)]

    def _remote_files(self) -> list[RemoteFile]:
        files = conda_files(self.conda_lock) if self.conda_lock is not None else []
        return files + archive_files(self.inputs)

    def _set(self, uses: Sequence[RepositoryUse], files: Collection[str]) -> MirrorSet:
        ordered = sorted(set(uses), key=lambda use: (use.component, use.configure_time, use.url, use.path))
        return MirrorSet(
            recipe=self.inputs.recipe,
            pythons=self.wanted.pythons,
            repositories=tuple(ordered),
            files=tuple(sorted(set(files))),
            inputs=inputs_digest(self.inputs, self.conda_lock),
        )

    # --- without changing anything -----------------------------------------------------------------------

    def _look(self) -> dict[str, Any]:
        mirror, teller = Mirror.open(self.path), Teller(self.sink)
        title = "files in the mirror"
        with teller.run(self.inputs.recipe, str(self.path), [("check", title)]), teller.doing("check", title):
            require_sound(mirror, checked(mirror, teller))
            files = self._require_here(mirror)
        present = mirror.entries()
        rows = [file_row(entry, present) for entry in files]
        return self._document("fetch", files=rows, summary=totals(present.values(), present))

    def _require_here(self, mirror: Mirror) -> list[Entry]:
        store = mirror.git_store(self.git, offline=True, cancel=self.cancel)
        for use in missing_repositories(store, self.inputs):
            raise self._lacks(
                f"{use.url} at {use.commit or use.ref}",
                f"{use.component} needs it, but it was not fetched",
                {"url": use.url, "commit": use.commit or None},
            )
        conda = conda_files(self.conda_lock) if self.conda_lock is not None else []
        entries = {entry.sha256: entry for entry in mirror.files()}
        archives = [self._archive(file, entries.values()) for file in archive_files(self.inputs)]
        for file in conda:
            if file.sha256 not in entries:
                raise self._lacks(file.filename, "it was not fetched", {"sha256": file.sha256})
        wheels = _named(mirror, wheels_here(mirror, self.inputs, self.wanted.pythons))
        return [*wheels, *(entries[file.sha256] for file in conda if file.sha256 is not None), *archives]

    def _archive(self, file: RemoteFile, entries: Iterable[Entry]) -> Entry:
        found = entry_of(entries, file)
        if found is None:
            raise self._lacks(file.filename, f"it was not fetched from {file.url}", {"url": file.url})
        return found

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
        """Return what a fetch would download, as far as it is not in the mirror; nobody is asked for it.

        Raises:
            SourceIntegrityError, UsageError, RecipeError, ToolchainError, InterruptedByUserError.
        """
        there = any((self.path / name).exists() for name in (MARK, INDEX))
        mirror = Mirror.open(self.path) if there else None
        store = (mirror or Mirror(self.path)).git_store(self.git, offline=True, cancel=self.cancel)
        repositories = missing_repositories(store, self.inputs)
        files = missing_files(mirror, self._remote_files())
        wheels = [
            need for needs in needs_of(self.inputs, self.wanted.pythons) for need in lacking(mirror, needs)
        ]
        present = mirror.entries() if mirror is not None else {}
        missing_bytes = sum(file.size or 0 for file in files)
        return self._document(
            "dry-run",
            missing=[
                *map(missing_repository, repositories),
                *map(missing_wheel, wheels),
                *map(missing_file, files),
            ],
            summary=totals(present.values(), present, missing_bytes),
        )

    def needed_entries(self, mirror: Mirror) -> dict[str, Entry]:
        """Return the entries that this build needs, from the set of the fetch that brought them.

        Raises:
            FetchError: no fetch of these inputs was made into the mirror.
            SourceIntegrityError: an entry is damaged or missing.
        """
        wanted = inputs_digest(self.inputs, self.conda_lock)
        chosen = [
            needed
            for needed in mirror.sets()
            if needed.inputs == wanted and set(self.wanted.pythons) <= set(needed.pythons)
        ]
        if not chosen:
            raise self._lacks(
                f"the current version of recipe '{self.inputs.recipe}'",
                f"these pins were not fetched for Python {', '.join(self.wanted.pythons)}",
                {"recipe": self.inputs.recipe},
            )
        best = min(chosen, key=lambda needed: (len(needed.pythons), needed.name))
        ids = {entry_id("set", best.name), *best.needs}
        entries = mirror.entries()
        for identifier in sorted(ids - entries.keys()):
            lost = Damage(INDEX, f"lacks {identifier}", f"the set {best.name} needs it")
            raise damage_error(self.path, [lost])
        return {identifier: entries[identifier] for identifier in sorted(ids)}


def check_mirror(
    path: Path, *, sink: Sink, cancel: Cancel | None = None, fetch: Fetch | None = None
) -> dict[str, Any]:
    """Verify every file of a mirror, or those that ``fetch`` needs, and return the document.

    Raises:
        SourceIntegrityError: something is damaged; the error carries the document.
        FetchError: there is no mirror, or it lacks the recipe.
    """
    mirror, teller = Mirror.open(path, damaged=True), Teller(sink, cancel=cancel)
    only = None if fetch is None else {MARK, INDEX, PAGE, *fetch.needed_entries(mirror)}
    with teller.run("mirror", str(path), [("check", "all files")]), teller.doing("check", "all files"):
        damages = checked(mirror, teller, only)
        entries = read_manifest(path).entries
        found = document(
            "check",
            path,
            damaged=plain(tuple(damages)),
            summary=totals(entries.values(), entries),
        )
        if damages:
            error = damage_error(path, damages)
            error.document = {**found, "status": "error", "error": error.to_json()}
            raise error
    return {**found, "status": "ok"}


def _named(mirror: Mirror, digests: Collection[str]) -> list[Entry]:
    """Return the entries of files, in the order of their names."""
    return sorted(
        (entry for entry in mirror.files() if entry.sha256 in digests), key=lambda entry: entry.name
    )

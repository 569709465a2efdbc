"""``fetch``: downloads what a build takes from outside into a depot, and lists it there last."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import platformdirs

from xpubuild.documents import plain
from xpubuild.engine.environment import base_environment
from xpubuild.engine.events import Sink
from xpubuild.engine.files import remove_tree
from xpubuild.engine.fingerprint import digest
from xpubuild.engine.places import cannot_write
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.errors import FetchError
from xpubuild.frozen import frozen
from xpubuild.install import fetch_packages as packages
from xpubuild.install.choose import choose
from xpubuild.install.inputs import Inputs, Tree, inputs_of, trees, unknown_archives
from xpubuild.install.lock import recipe_of, requirement_file
from xpubuild.install.lock_file import compare, read_lock
from xpubuild.install.locked import conda_lock_beside, mismatch, options_of
from xpubuild.install.options import Options, is_lock
from xpubuild.install.patching import with_patches
from xpubuild.install.resolve import conda_lock_of, prepare, requirement_texts, resolve_commits
from xpubuild.install.target import Target
from xpubuild.machine.pythons import PATIENT_S, probe_python, resolve_python
from xpubuild.recipe.choices import python_lines
from xpubuild.recipe.load import load
from xpubuild.supply.archives import archive_entry, file_name
from xpubuild.supply.conda.lockfile import read_lock as read_conda_lock
from xpubuild.supply.depot import examine
from xpubuild.supply.depot.entries import DepotSet, Entry, Index, RepositoryUse, index_of
from xpubuild.supply.depot.folder import Damage, Depot, repositories_in
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.serving import remember


@frozen
class Wanted:
    """Inputs, the Python versions they are for, and the commits of tags that were looked up: (url, ref).

    ``stocks`` are where patched commits were made.
    """

    inputs: Inputs
    pythons: tuple[str, ...]
    named: Mapping[tuple[str, str], str]
    conda_lock: str | None = None
    stocks: tuple[Path, ...] = ()


def wanted(
    options: Options, for_python: str | None, *, store: RepositoryStore, cancel: Cancel | None = None
) -> Wanted:
    """Return what the build of ``options`` takes from outside; that takes no compiler, oneAPI or GPU.

    ``for_python`` is "3.10,3.11", "all", or None for the interpreter that ``install`` would take. ``store``
    looks up the commits of branches: in its stocks, and upstream where it is not offline.

    Raises:
        LockMismatchError: RECIPE is a lock, and its recipe says otherwise by now.
        RecipeError, UsageError, UnsatisfiableError, FetchError, ToolchainError.
    """
    lock = read_lock(Path(options.recipe)) if options.recipe is not None and is_lock(options.recipe) else None
    if lock is not None:
        conda_lock = options.conda_lock or conda_lock_beside(Path(options.recipe or ""), lock)
        options = replace(options_of(lock, replace(options, recipe=None)), conda_lock=conda_lock)
    target = prepare(options, cancel=cancel).target if options.recipe is None else _target(options, store)
    inputs, known = inputs_of(target), dict[str, str]()
    if lock is not None:
        files = {name: requirement_file(text) for name, text in target.requirements.items()}
        locked = {name: file.model_dump(exclude_defaults=True) for name, file in lock.requirements.items()}
        differ = compare("requirements", locked, files)
        if found := [*compare("recipe", lock.recipe, recipe_of(target)), *differ]:
            raise mismatch(lock, found)
        # Upstream states no hash of some archives, and the lock has it.
        known = {name: item.sha256 for name, item in lock.archives.items()}
        for_python = for_python or lock.options.python
    archives = tuple(replace(item, sha256=item.sha256 or known.get(item.name)) for item in inputs.archives)
    pythons = python_lines(target.recipe, for_python, target.python_version)
    named = {(item.url, item.ref): item.commit for item in target.resolved.values()}
    named |= {(item.url, item.name): item.commit for item in target.patched.values()}
    stocks = (target.cache,) if target.patched else ()
    return Wanted(replace(inputs, archives=archives), pythons, named, target.conda_lock, stocks)


def _target(options: Options, store: RepositoryStore) -> Target:
    """Return the target without what only a build needs of this machine."""
    choice = choose(options, load(options.recipe or "", options.with_))
    resolved = resolve_commits(choice, store)
    # The mirror may have a conda lock.
    asked = replace(options, mirror=store.cache, offline=store.offline)
    conda = conda_lock_of(replace(choice, options=asked))
    if conda is None:
        executable = resolve_python(options.python, base_environment())
        version = probe_python(executable, deadline_s=PATIENT_S).version
    else:
        version = read_conda_lock(conda).python
    target = Target(
        **vars(choice), python_version=version, conda_lock=conda, resolved=resolved,
        cache=platformdirs.user_cache_path("xpubuild"), requirements=requirement_texts(choice),
    )  # fmt: skip
    return with_patches(target, replace(store, cache=target.cache, stocks=(store.cache, *store.stocks)))


_CHECK = ("check", "files in the mirror")
_PACKAGES = ("packages", "Python and conda packages, archives")
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

    def run(self) -> dict[str, Any]:
        """Repair the depot, download missing files, and return the ``xpubuild.fetch/1`` document.

        Offline, and in a depot that this user cannot write to and that has everything, nothing is downloaded
        or repaired: everything must be present and valid.

        Raises:
            FetchError: something cannot be had; offline: it is not here.
            SourceIntegrityError: what came is not what was asked for; offline: the depot is damaged.
            UsageError, NoSpaceError, RecipeError, ToolchainError, InterruptedByUserError.
        """
        read_only = examine.is_indexed(self.path) and cannot_write(self.path)
        if self.offline or (read_only and not any(self._missing(Depot.open(self.path).index()))):
            return self._look()
        depot, inputs = Depot.open(self.path, create=True, damaged=True), self.wanted.inputs
        teller = Teller(self.sink)
        pins = [(item.component, item.pin.commit) for item in inputs.repositories]
        steps = [(f"{name}.source", f"{name} at {commit[:12]}") for name, commit in pins]
        with (
            teller.run(inputs.recipe, str(self.path), [_CHECK, *steps, _PACKAGES]),
            depot.writing(cancel=self.cancel, report=teller.notice),
        ):
            with teller.doing(*_CHECK):
                damaged, before = self._repaired(depot, teller)
            store = RepositoryStore(self.path, self.git, stocks=self.wanted.stocks, cancel=self.cancel)
            found = list[Tree]()
            for item, step in zip(inputs.repositories, steps, strict=True):
                with teller.doing(*step):
                    found += trees(item, store, teller.line)
            for (url, ref), commit in self.wanted.named.items():
                if store.mirror(url, commit).holds(commit):
                    # For an install without a network.
                    remember(store, url, ref, commit)
            unknown = [*(tree.note for tree in found if tree.pin is None), *unknown_archives(inputs)]
            for note in unknown:
                teller.notice(f"{note}; it cannot be fetched", "warning")
            lock, present = self.wanted.conda_lock, before.files()
            with teller.doing(*_PACKAGES):
                needs = packages.needs_of(inputs, self.wanted.pythons)
                remotes = packages.remote_files(inputs, lock)
                files = packages.fetch_wheels(depot, needs, present, teller, self.cancel)
                files += packages.fetch_files(depot, remotes, present, teller, self.cancel)
                files += [packages.keep_conda_lock(depot, inputs.recipe, lock)] if lock is not None else []
            needed = self._set(found, files)
            every = self._listed(index_of([*before.entries.values(), *files], ()), needed.repositories)
            earlier = self._whole(every, before.sets.values(), teller)
            after = index_of(every.entries.values(), (*earlier, needed))
            depot.publish(after)
        fetched = {url for tree in found for url in tree.fetched}
        return self._document(
            set=needed.name,
            repositories=[{**plain(use), "new": use.url in fetched} for use in needed.repositories],
            files=[
                {**{name: getattr(entry, name) for name in _FILE}, "new": entry.id not in before.entries}
                for entry in needed.files
            ],
            unknown=unknown, damaged=plain(damaged), summary=_totals(after, before),
        )  # fmt: skip

    def _document(self, **parts: Any) -> dict[str, Any]:
        return {
            "schema": "xpubuild.fetch/1", "status": "ok", "mirror": str(self.path),
            "recipe": self.wanted.inputs.recipe, "pythons": list(self.wanted.pythons), "set": None,
            **{name: [] for name in ("repositories", "files", "unknown", "damaged")}, **parts,
        }  # fmt: skip

    def _look(self) -> dict[str, Any]:
        """Refuse a depot that is damaged or lacks something."""
        depot, teller, recipe = Depot.open(self.path), Teller(self.sink), self.wanted.inputs.recipe
        again = f"xpubuild fetch {shlex.quote(recipe)} --mirror {shlex.quote(str(self.path))}"
        with teller.run(recipe, str(self.path), [_CHECK]), teller.doing(*_CHECK):
            examine.require_sound(depot, progress=teller.count)
            index = depot.index()
            for name in self._missing(index):
                raise FetchError(
                    f"{name} is not in the mirror {self.path}",
                    why="it was not fetched",
                    fix="fetch the recipe on a machine with a network",
                    commands=(again,),
                    evidence={"reason": "offline", "mirror": str(self.path)},
                )
        return self._document(summary=_totals(index, index))

    def _missing(self, index: Index) -> Iterator[str]:
        """Yield what the depot lacks: repositories, wheels, conda packages and archives."""
        inputs, files = self.wanted.inputs, index.files()
        for item in inputs.repositories:
            if not index.has(RepositoryUse(item.component, item.pin.url, item.pin.commit)):
                yield f"{item.pin.url} at {item.pin.commit}"
        for need in (need for needs in packages.needs_of(inputs, self.wanted.pythons) for need in needs):
            if not any(need.met_by(entry.name, entry.sha256) for entry in files):
                yield need.name
        for file in packages.remote_files(inputs, self.wanted.conda_lock):
            if archive_entry(files, file) is None:
                yield file_name(file.url)
        if self._asked() not in {one.inputs for one in index.sets.values()}:
            # Submodules, and what builds clone, are known to a fetch alone.
            yield f"all of {inputs.recipe}, as it is asked for,"

    def _asked(self) -> str:
        """Return a digest of the request."""
        inputs = self.wanted.inputs
        return digest({
            "repositories": [
                [one.component, one.pin.url, one.pin.key(), [i.model_dump() for i in one.configure_time]]
                for one in inputs.repositories
            ],
            "requirements": [[one.name, one.text] for one in inputs.requirements],
            # Not the hash: a recipe often has none where a lock of it does.
            "archives": [[one.name, one.url] for one in inputs.archives],
            "conda": self.wanted.conda_lock,
        })  # fmt: skip

    def _repaired(self, depot: Depot, teller: Teller) -> tuple[list[Damage], Index]:
        """Return the damage of a depot, and what is sound of it; repositories that are not are removed."""
        teller.expect(sum(entry.size for entry in depot.listed().entries.values()))
        damaged = examine.damages(depot, progress=teller.count)
        if not damaged:
            return [], depot.index()
        for damage in damaged:
            teller.notice(f"damaged: {damage}; repaired or fetched again", "warning")
        index = examine.relisted(depot, damaged, self.git, self.cancel)
        for place in repositories_in(self.path):
            if place not in index.entries:
                remove_tree(self.path / place)
        return damaged, index

    def _set(self, found: Iterable[Tree], files: Iterable[Entry]) -> DepotSet:
        uses = {use for tree in found for use in tree.uses()}
        return DepotSet(
            recipe=self.wanted.inputs.recipe, pythons=self.wanted.pythons,
            repositories=tuple(
                sorted(uses, key=lambda use: (use.component, use.configure_time, use.url, use.path))
            ),
            files=tuple({entry.id: entry for entry in files}.values()), inputs=self._asked(),
        )  # fmt: skip

    def _whole(self, index: Index, sets: Iterable[DepotSet], teller: Teller) -> Iterator[DepotSet]:
        """Yield the sets of earlier fetches that have all they need; the others have to be fetched again."""
        for one in sets:
            if one.needs <= index.entries.keys() and all(map(index.has, one.repositories)):
                yield one
            else:
                teller.notice(f"{one.path} lacks what was damaged: fetch {one.recipe} again", "warning")
                remove_tree(self.path / one.path)

    def _listed(self, index: Index, uses: Iterable[RepositoryUse]) -> Index:
        """Return an index with the repositories of ``uses`` as they are now."""
        entries = dict(index.entries)
        for use in {use.id: use for use in uses}.values():
            pins = tuple(examine.pins_in(self.path, use.id))
            named = tuple(examine.named_in(self.path, use.id))
            sketch = Entry("git", Path(use.id).name, (), use.url, pins=pins, named=named)
            entry = examine.list_repository(self.path, sketch, entries.get(use.id))
            if entry is not None:
                entries[use.id] = entry
        return replace(index, entries=entries)


def _totals(index: Index, before: Index) -> dict[str, int]:
    """Return how much there is, and how much of it was not listed ``before``."""
    every, old = list(index.entries.values()), before.entries
    new = [entry for entry in every if old.get(entry.id) != entry]
    new_bytes = sum(entry.size - (old[entry.id].size if entry.id in old else 0) for entry in new)
    return {
        "repositories": sum(entry.kind == "git" for entry in every),
        "files": sum(entry.kind != "git" for entry in every),
        "bytes": sum(entry.size for entry in every),
        "new_repositories": sum(entry.kind == "git" for entry in new),
        "new_files": sum(entry.kind != "git" for entry in new),
        "new_bytes": max(0, new_bytes),
    }

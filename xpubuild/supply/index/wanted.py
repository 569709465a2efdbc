"""Finds every file that the interpreters of a build may pick, on what pip is configured with and beyond."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import requests
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from xpubuild.engine.redact import recordable
from xpubuild.engine.watch import Cancel
from xpubuild.errors import RecipeError
from xpubuild.supply.index.choice import Offer, best, checked_pythons, matches, may_install
from xpubuild.supply.index.config import IndexConfig, local_path
from xpubuild.supply.index.files import RemoteFile, stated
from xpubuild.supply.index.missing import Need, nothing, other_hashes
from xpubuild.supply.index.pages import Sources
from xpubuild.supply.index.session import IndexSession
from xpubuild.supply.index.threads import in_threads
from xpubuild.supply.requirements import HashedPin, hashed_pins


def wanted_files(
    requirements: Sequence[tuple[str, Sequence[str]]],
    pythons: Sequence[str],
    config: IndexConfig,
    *,
    machine: str = "x86_64",
    only: str | None = None,
    sdists: bool = True,
    on_warning: Callable[[str], None] | None = None,
    cancel: Cancel | None = None,
) -> list[RemoteFile]:
    """Return every file of hashed requirement files that one of ``pythons`` on Linux may pick.

    ``requirements`` are (text, own indexes); those indexes are asked only for what pip's configuration lacks,
    as ``install`` does. ``only`` is the one distribution that is looked up. ``sdists`` takes source
    distributions where there is no wheel. ``on_warning`` hears of places that did not answer although
    nothing is lacking: what only they have is not in the list. The
    order is by name, version and file name.

    Raises:
        FetchError: nothing was found of a pin for one interpreter; names it and the places that were asked.
        SourceIntegrityError: only files with other hashes than the requirement file's were found.
        RecipeError: a requirement file is no list of pins with sha256.
        UsageError: one of ``pythons`` is no version.
        InterruptedByUserError: ``cancel`` was set.
    """
    needs = _needs(requirements, checked_pythons(pythons), machine)
    if only is not None:
        needs = [need for need in needs if canonicalize_name(need.pin.name) == canonicalize_name(only)]
    sources = Sources(config, cancel)
    sources.load(canonicalize_name(need.pin.name) for need in needs)
    extra: dict[tuple[str, ...], Sources] = {}
    found: dict[str, RemoteFile] = {}
    for need in needs:
        asked = [sources]
        chosen, others = _fitting(need, sources, sdists)
        if not chosen and need.indexes:
            own = extra.setdefault(need.indexes, Sources(config.with_indexes(need.indexes), cancel))
            asked.append(own)
            chosen, more = _fitting(need, own, sdists)
            others += more
        if not chosen:
            raise other_hashes(need, others, asked) if others else nothing(need.text, need, asked)
        for item in chosen:
            _add(found, item, need.pin.hashes, asked[-1].config)
    if on_warning is not None:
        for place, why in sorted(sources.failures.items()):
            on_warning(f"{place} is skipped: {why}")
    return _ordered(found.values())


def wanted_open(
    dist: str,
    version: str,
    pythons: Sequence[str],
    indexes: Sequence[str],
    config: IndexConfig,
    *,
    machine: str = "x86_64",
    cancel: Cancel | None = None,
) -> list[RemoteFile]:
    """Return the wheels of a release whose hashes nobody has written down; ``indexes`` alone are asked.

    ``sha256`` is what the index states, or None. Of several builds (local labels) the newest is taken.

    Raises:
        FetchError: there is no wheel for one of ``pythons``.
        UsageError: one of ``pythons`` is no version.
        InterruptedByUserError: ``cancel`` was set.
    """
    specifier = SpecifierSet(f"=={version}")
    sources = Sources(config.with_indexes(indexes), cancel)
    found: dict[str, RemoteFile] = {}
    for python in checked_pythons(pythons):
        need = Need(HashedPin(dist, version, specifier, None, frozenset()), python, machine)
        wheels = [item for item in _offered(need, sources) if item.is_wheel]
        if not wheels:
            raise nothing(f"a wheel of {need.text}", need, [sources])
        newest = max(item.version for item in wheels)
        for item in wheels:
            if item.version == newest:
                _add(found, item, frozenset(), sources.config)
    return _ordered(found.values())


def with_sizes(
    files: Sequence[RemoteFile], config: IndexConfig, *, cancel: Cancel | None = None
) -> list[RemoteFile]:
    """Return the files with the sizes that HTML pages do not state, as far as the servers tell them.

    Raises:
        InterruptedByUserError: ``cancel`` was set.
    """
    session = IndexSession(config)

    def sized(file: RemoteFile) -> RemoteFile:
        if file.size is not None or local_path(file.link) is not None:
            return file
        try:
            response = session.ask(file.link, method="HEAD")
        except requests.RequestException:
            return file
        length = response.headers.get("Content-Length", "")
        return replace(file, size=int(length)) if response.ok and length.isdigit() else file

    return in_threads(sized, files, cancel)


def _needs(
    requirements: Sequence[tuple[str, Sequence[str]]], pythons: Sequence[str], machine: str
) -> list[Need]:
    needs = []
    for text, indexes in requirements:
        for pin in hashed_pins(text):
            if not pin.hashes:
                raise RecipeError(
                    f"{pin.name}=={pin.version} in a requirements file has no sha256",
                    why="a file is only used if its hash is known beforehand",
                    fix="write it as name==version with --hash=sha256:…",
                )
            needs += [
                Need(pin, python, machine, tuple(indexes))
                for python in pythons
                if pin.applies(python.removesuffix("t"), machine)
            ]
    return needs


def _offered(need: Need, sources: Sources) -> list[Offer]:
    return [
        item
        for item in sources.offers(need.pin.name)
        if matches(item.version, need.pin.specifier) and may_install(item, need.python, need.machine)
    ]


def _fitting(need: Need, sources: Sources, sdists: bool) -> tuple[list[Offer], list[Offer]]:
    """Return the files to take, and those of the same release that have another hash."""
    good: list[Offer] = []
    others: list[Offer] = []
    for item in _offered(need, sources):
        path = local_path(item.url)
        known = item
        if item.sha256 is None and path is not None and path.is_file():
            digest, size = stated(path)
            known = replace(item, sha256=digest, size=size)
        # Without a stated hash it is looked at when it is here.
        (good if known.sha256 is None or known.sha256 in need.pin.hashes else others).append(known)
    return best(good, sdists=sdists), others


def _add(found: dict[str, RemoteFile], item: Offer, allowed: frozenset[str], config: IndexConfig) -> None:
    """Keep one of each file name: pip's order decides, but a stated hash is better than none."""
    known = found.get(item.filename)
    if known is None or (known.sha256 is None and item.sha256 is not None):
        found[item.filename] = RemoteFile(
            dist=item.dist,
            version=str(item.version),
            filename=item.filename,
            sha256=item.sha256,
            size=item.size,
            url=recordable(item.url, tokens_in_path=True),
            requires_python=item.requires_python,
            allowed=allowed if item.sha256 is None else frozenset(),
            origin=config.credentials.into(item.url),
        )


def _ordered(files: Iterable[RemoteFile]) -> list[RemoteFile]:
    return sorted(files, key=lambda file: (file.dist, file.version, file.filename))

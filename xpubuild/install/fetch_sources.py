"""Downloads the repositories of a build into a mirror, and lists the missing ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xpubuild.engine.reporter import Teller
from xpubuild.errors import FetchError
from xpubuild.install.fetch_repositories import Brought
from xpubuild.install.planner import Inputs
from xpubuild.supply.git.bare import RepositoryStore, named_commit, remember
from xpubuild.supply.git.configure_time import ConfigurePin, configure_time_pins
from xpubuild.supply.git.gitmodules import read_links
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.mirror.repositories import holds
from xpubuild.supply.mirror.sets import RepositoryUse
from xpubuild.supply.mirror.store import Mirror

_SOME_ID = "0" * 40


def bring_sources(
    mirror: Mirror,
    store: RepositoryStore,
    inputs: Inputs,
    named: Mapping[tuple[str, str], str],
    teller: Teller,
) -> Brought:
    """Make every pin be in ``mirror``, whose store is ``store``, with submodules and what its build clones.

    ``named`` are commits of tags and branches that were looked up: (url, ref) -> commit.

    Raises:
        FetchError, SourceIntegrityError, NoSpaceError, RecipeError, ToolchainError, InterruptedByUserError.
    """
    found = Brought(store)
    for item in inputs.repositories:
        uses, unknown = len(found.uses), len(found.unknown)
        with teller.doing(f"{item.component}.source", f"{item.component} at {item.pin.commit[:12]}"):
            found.bring(item, teller.line)
            for (url, ref), commit in named.items():
                if (url, commit) == (item.pin.url, item.pin.commit):
                    remember(store, url, ref, commit)
            for url, commit in dict.fromkeys((use.url, use.commit) for use in found.uses[uses:]):
                mirror.note_repository(url, commit)
        for one in found.unknown[unknown:]:
            teller.notice(f"{one.note}; it cannot be fetched", "warning")
    return found


def missing_repositories(store: RepositoryStore, inputs: Inputs) -> list[RepositoryUse]:
    """Return the repositories that the mirror lacks, as far as it can be told; nothing is asked or written.

    The submodules of one that is missing are not known before it is here.
    """
    missing: list[RepositoryUse] = []
    for item in inputs.repositories:
        top = RepositoryUse(item.component, item.pin.url, item.pin.commit)
        if not _walk(store, top, item.pin, missing):
            continue
        git_dir = store.mirror(item.pin.url, item.pin.commit).path
        for pin in configure_time_pins(store.git, git_dir, item.pin.commit, item.configure_time):
            commit = pin.commit or _remembered(store, pin)
            use = RepositoryUse(item.component, pin.url, commit or "", pin.path or "", pin.ref, True)
            if commit is not None:
                _walk(store, use, Pin(url=pin.url, commit=commit), missing)
            elif pin.ref is not None:
                missing.append(use)
    return missing


def _remembered(store: RepositoryStore, pin: ConfigurePin) -> str | None:
    if pin.ref is None or not store.mirror(pin.url, _SOME_ID).path.is_dir():
        return None
    try:
        return named_commit(replace(store, offline=True), pin.url, pin.ref)
    except FetchError:
        return None


def _walk(store: RepositoryStore, use: RepositoryUse, pin: Pin, missing: list[RepositoryUse]) -> bool:
    """Append what is missing at and below ``use``; return whether it is here itself."""
    todo = [("", use)]
    while todo:
        below, one = todo.pop()
        git_dir = store.mirror(one.url, one.commit).path
        if not holds(store.git, git_dir, one.commit):
            missing.append(one)
            continue
        for link in read_links(store.git, git_dir, one.commit, one.url) if pin.submodules else ():
            place = f"{below}/{link.path}".strip("/")
            if place not in pin.skip:
                path = f"{use.path}/{place}".strip("/")
                child = replace(one, url=link.url, commit=link.commit, path=path, ref=None)
                todo.append((place, child))
    return use not in missing

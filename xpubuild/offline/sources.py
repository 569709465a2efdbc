"""Downloads the repositories of a build into a mirror, and lists the missing ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from xpubuild.engine.reporter import Teller
from xpubuild.errors import FetchError
from xpubuild.mirror.entries import entry_id
from xpubuild.mirror.repositories import holds
from xpubuild.mirror.sets import RepositoryUse
from xpubuild.mirror.store import Mirror
from xpubuild.offline.repositories import Brought, Unknown, bring_repositories
from xpubuild.planning.inputs import Inputs
from xpubuild.source.bare import RepositoryStore
from xpubuild.source.configure_time import ConfigurePin, configure_time_pins
from xpubuild.source.gitmodules import read_links
from xpubuild.source.named import named_commit, remember
from xpubuild.source.pin import Pin
from xpubuild.source.urls import mirror_name

_JOBS = 4
_SOME_ID = "0" * 40


@dataclass
class Repositories:
    """Fills the repositories of ``mirror``; ``uses`` is what was needed, ``fetched`` the URLs of what came.

    ``named`` are commits of tags and branches that were looked up: (url, ref) -> commit.
    """

    mirror: Mirror
    store: RepositoryStore
    teller: Teller
    named: Mapping[tuple[str, str], str]
    uses: list[RepositoryUse] = field(default_factory=list)
    fetched: set[str] = field(default_factory=set)
    unknown: list[Unknown] = field(default_factory=list)

    def bring(self, inputs: Inputs) -> None:
        """Make every pin be here, with its submodules and what its build clones.

        Raises:
            FetchError, SourceIntegrityError, NoSpaceError, RecipeError, ToolchainError,
            InterruptedByUserError.
        """
        for item in inputs.repositories:
            title = f"{item.component} at {item.pin.commit[:12]}"
            with self.teller.doing(f"{item.component}.source", title):
                brought, unknown = bring_repositories(self.store, [item], jobs=_JOBS, report=self.teller.line)
                for (url, ref), commit in self.named.items():
                    if (url, commit) == (item.pin.url, item.pin.commit):
                        remember(self.store, url, ref, commit)
                for url, commit in dict.fromkeys((one.url, one.commit) for one in brought):
                    self.mirror.note_repository(url, commit)
            for open_one in unknown:
                self.teller.notice(f"{open_one.note}; it cannot be fetched", "warning")
            self.unknown += unknown
            self.fetched |= {one.url for one in brought if one.fetched}
            self.uses += map(_use, brought)


def _use(item: Brought) -> RepositoryUse:
    return RepositoryUse(
        component=item.component,
        url=item.url,
        commit=item.commit,
        path=item.path,
        ref=item.asked_for if item.asked_for != item.commit else None,
        configure_time=item.configure_time,
    )


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


def repository_ids(uses: Iterable[RepositoryUse]) -> set[str]:
    """Return the ids of the manifest entries of what is used."""
    return {entry_id("git", mirror_name(use.url, len(use.commit))) for use in uses if use.commit}

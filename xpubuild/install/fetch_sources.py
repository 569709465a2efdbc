"""The repositories and archives of a build: fetched into a depot, listed where they lack, looked up offline.

``fetch`` fills the repositories of a depot. An offline install fills the user's own from a depot alone: this
verifies, before any build, that nothing is missing or damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from xpubuild.engine.reporter import Teller
from xpubuild.errors import FetchError
from xpubuild.frozen import frozen
from xpubuild.install.planner import Archive as Wanted
from xpubuild.install.planner import Inputs, Repository
from xpubuild.supply.archives import Archive, Supply, look, nowhere
from xpubuild.supply.depot.entries import RepositoryUse
from xpubuild.supply.depot.repositories import holds
from xpubuild.supply.git.bare import RepositoryStore, named_commit, remember
from xpubuild.supply.git.configure_time import ConfigurePin, configure_time_pins
from xpubuild.supply.git.discover import discover
from xpubuild.supply.git.git import Report
from xpubuild.supply.git.gitmodules import read_links
from xpubuild.supply.git.pin import Pin

_JOBS = 4
_SOME_ID = "0" * 40


@frozen
class Unknown:
    """A repository that the build clones, at a commit that its tree does not say plainly."""

    component: str
    url: str
    note: str


@dataclass
class Sources:
    """What ``store`` has now of the repositories of a build.

    ``fetched`` are the URLs for which the network was asked, ``unknown`` what cannot be fetched.
    """

    store: RepositoryStore
    uses: list[RepositoryUse] = field(default_factory=list)
    fetched: set[str] = field(default_factory=set)
    unknown: list[Unknown] = field(default_factory=list)

    def fetch(self, item: Repository, report: Report) -> None:
        """Make the store have a pin with its submodules, and what its build clones.

        Raises:
            FetchError: one cannot be had; offline, the first one that is missing.
            SourceIntegrityError, RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
        """
        store, url, commit = self.store, item.pin.url, item.pin.commit
        self._tree(RepositoryUse(item.component, url, commit), item.pin, report)
        git_dir = store.mirror(url, commit).path
        for pin in configure_time_pins(store.git, git_dir, commit, item.configure_time):
            if pin.asked_for is None:
                self.unknown.append(Unknown(item.component, pin.url, pin.note))
                continue
            asked = pin.commit or named_commit(store, pin.url, pin.ref or "")
            ref = pin.asked_for if pin.asked_for != asked else None
            use = RepositoryUse(item.component, pin.url, asked, pin.path or "", ref, configure_time=True)
            self._tree(use, Pin(url=pin.url, commit=asked, ref=pin.ref), report)
            if pin.ref is not None:
                remember(store, pin.url, pin.ref, asked)

    def _tree(self, top: RepositoryUse, pin: Pin, report: Report) -> None:
        tree = discover(self.store, pin, jobs=_JOBS, report=report)
        self.fetched.update(tree.fetched)
        for node in tree.nodes:
            path, ref = f"{top.path}/{node.path}".strip("/"), top.ref if node.parent is None else None
            self.uses.append(replace(top, url=node.url, commit=node.commit, path=path, ref=ref))


def refuse_unknown(unknown: Iterable[Unknown]) -> None:
    """Refuse to go offline with a repository of which nobody knows the commit.

    Raises:
        FetchError: there is one.
    """
    for item in unknown:
        raise FetchError(
            f"{item.url} cannot be mirrored: its commit for {item.component} is unknown",
            why=item.note,
            fix=(
                "write a recipe that extends this one and sets the commit or tag of this repository at "
                f"components.{item.component}.source.configure_time, then fetch again"
            ),
            evidence={"reason": "offline", "url": item.url},
        )


def missing_repositories(store: RepositoryStore, inputs: Inputs) -> list[RepositoryUse]:
    """Return the repositories that a depot lacks, as far as can be known; nothing is asked or written.

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


def _note_of(item: Wanted) -> str:
    return f"it is not known from where the build of {item.component} downloads its {item.name}"


def open_archives(inputs: Inputs, teller: Teller) -> Iterator[str]:
    """Yield, and report, what cannot be fetched because nobody knows from where it comes."""
    for item in inputs.archives:
        if item.url is None:
            teller.notice(f"{_note_of(item)}; it cannot be fetched", "warning")
            yield _note_of(item)


def require_archives(archives: Iterable[Wanted], supply: Supply) -> None:
    """Look up, without a network, every archive that a build would download.

    Raises:
        FetchError: one is not here.
        SourceIntegrityError: the mirror's copy is damaged.
    """
    for item in archives:
        if item.url is None:
            raise FetchError(
                f"the {item.name} of {item.component} is not in the mirror",
                why=_note_of(item),
                fix=(
                    f"write a recipe that extends this one and sets components.{item.component}.build"
                    f".archives.{item.name}.url, then fetch again"
                ),
                evidence={"reason": "offline", "archive": item.key},
            )
        archive = Archive(item.name, item.url, item.sha256)
        if look(archive, supply) is None:
            raise nowhere(archive)

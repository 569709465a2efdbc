"""The repositories and archives of a build: fetched into a depot, listed where they lack, looked up offline.

``fetch`` fills the repositories of a depot. An offline install fills the user's own from a depot alone: this
verifies, before any build, that nothing is missing or damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

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
from xpubuild.supply.git.discover import Node, discover
from xpubuild.supply.git.git import Report
from xpubuild.supply.git.gitmodules import read_links
from xpubuild.supply.git.pin import Pin

_JOBS = 4
_SOME_ID = "0" * 40


@frozen
class Tree:
    """A repository of a build, in the store with its submodules: a component's pin, or a clone of its build.

    ``asked`` is what a build asks for; without ``pin`` its commit is unknown, and ``note`` says why.
    ``fetched`` are the URLs for which the network was asked.
    """

    component: str
    url: str
    pin: Pin | None
    asked: ConfigurePin | None = None
    nodes: tuple[Node, ...] = ()
    fetched: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """Why the commit is unknown."""
        return self.asked.note if self.asked is not None else ""

    def uses(self) -> Iterator[RepositoryUse]:
        """Yield this repository and its submodules as the set of a fetch names them."""
        asked, pin = self.asked, self.pin
        ref = asked.asked_for if asked and pin and asked.asked_for != pin.commit else None
        place = asked.path or "" if asked is not None else ""
        for node in self.nodes:
            path, own = f"{place}/{node.path}".strip("/"), ref if node.parent is None else None
            yield RepositoryUse(self.component, node.url, node.commit, path, own, asked is not None)


def trees(item: Repository, store: RepositoryStore, report: Report) -> Iterator[Tree]:
    """Make the store have a pin with its submodules, and what its build clones; yield one after the other.

    Raises:
        FetchError: one cannot be had; offline, the first one that is missing.
        SourceIntegrityError, RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    url, commit = item.pin.url, item.pin.commit
    found = discover(store, item.pin, jobs=_JOBS, report=report)
    yield Tree(item.component, url, item.pin, None, found.nodes, found.fetched)
    for asked in configure_time_pins(store.git, store.mirror(url, commit).path, commit, item.configure_time):
        if asked.asked_for is None:
            yield Tree(item.component, asked.url, None, asked)
            continue
        named = asked.commit or named_commit(store, asked.url, asked.asked_for)
        pin = Pin(url=asked.url, commit=named, ref=asked.ref if asked.ref != named else None)
        found = discover(store, pin, jobs=_JOBS, report=report)
        yield Tree(item.component, asked.url, pin, asked, found.nodes, found.fetched)
        if asked.ref is not None:
            remember(store, asked.url, asked.ref, named)


def refuse_unknown(unknown: Iterable[Tree]) -> None:
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

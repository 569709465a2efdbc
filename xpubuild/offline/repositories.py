"""Downloads every repository of a build into a store: sources, submodules, and those that CMake clones.

``fetch`` uses a mirror folder as the store. An offline install uses the user's own mirrors with the folder as
their only source: this verifies, before any build, that nothing is missing or damaged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xpubuild.errors import FetchError
from xpubuild.planning.inputs import Repository
from xpubuild.source.bare import RepositoryStore
from xpubuild.source.configure_time import ConfigurePin, configure_time_pins
from xpubuild.source.discover import discover
from xpubuild.source.git import Report
from xpubuild.source.named import named_commit, remember
from xpubuild.source.pin import Pin


@dataclass(frozen=True)
class Brought:
    """A repository that is in the store now; ``path`` is its place in the tree of ``component``.

    ``configure_time`` marks what the build clones itself, and ``asked_for`` the commit or tag by which it
    does. ``fetched`` says whether the network was used.
    """

    component: str
    path: str
    url: str
    commit: str
    configure_time: bool = False
    asked_for: str | None = None
    fetched: bool = False


@dataclass(frozen=True)
class Unknown:
    """A repository that the build clones, at a commit that its tree does not say plainly."""

    component: str
    url: str
    note: str


def bring_repositories(
    store: RepositoryStore, repositories: Iterable[Repository], *, jobs: int, report: Report
) -> tuple[list[Brought], list[Unknown]]:
    """Make ``store`` hold every repository that a build takes from outside; return them, and what is open.

    Raises:
        FetchError: one cannot be had; offline, the first one that is missing.
        SourceIntegrityError, RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    brought: list[Brought] = []
    unknown: list[Unknown] = []
    for item in repositories:
        brought += _bring(store, item.component, item.pin, jobs, report)
        git_dir = store.mirror(item.pin.url, item.pin.commit).path
        for pin in configure_time_pins(store.git, git_dir, item.pin.commit, item.configure_time):
            if pin.asked_for is None:
                unknown.append(Unknown(item.component, pin.url, pin.note))
            else:
                brought += _bring_configured(store, item.component, pin, jobs, report)
    return brought, unknown


def _bring(store: RepositoryStore, component: str, pin: Pin, jobs: int, report: Report) -> list[Brought]:
    tree = discover(store, pin, jobs=jobs, report=report)
    fetched = set(tree.fetched)
    return [
        Brought(component, node.path, node.url, node.commit, fetched=node.url in fetched)
        for node in tree.nodes
    ]


def _bring_configured(
    store: RepositoryStore, component: str, pin: ConfigurePin, jobs: int, report: Report
) -> list[Brought]:
    commit = pin.commit or named_commit(store, pin.url, pin.ref or "")
    tree = discover(store, Pin(url=pin.url, commit=commit, ref=pin.ref), jobs=jobs, report=report)
    if pin.ref is not None:
        remember(store, pin.url, pin.ref, commit)
    fetched = set(tree.fetched)
    place = pin.path or ""
    return [
        Brought(
            component,
            f"{place}/{node.path}".strip("/"),
            node.url,
            node.commit,
            configure_time=True,
            asked_for=pin.asked_for if node.parent is None else node.commit,
            fetched=node.url in fetched,
        )
        for node in tree.nodes
    ]


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

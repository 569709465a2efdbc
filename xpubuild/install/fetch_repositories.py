"""Downloads every repository of a build into a store: sources, submodules, and those that CMake clones.

``fetch`` uses a mirror folder as the store. An offline install uses the user's own mirrors with the folder as
their only source: this verifies, before any build, that nothing is missing or damaged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from xpubuild.errors import FetchError
from xpubuild.frozen import frozen
from xpubuild.install.planner import Repository
from xpubuild.supply.git.bare import RepositoryStore, named_commit, remember
from xpubuild.supply.git.configure_time import configure_time_pins
from xpubuild.supply.git.discover import discover
from xpubuild.supply.git.git import Report
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.mirror.sets import RepositoryUse

_JOBS = 4


@frozen
class Unknown:
    """A repository that the build clones, at a commit that its tree does not say plainly."""

    component: str
    url: str
    note: str


@dataclass
class Brought:
    """What ``store`` holds now of what builds take from outside.

    ``fetched`` are the URLs for which the network was asked, ``unknown`` what cannot be brought.
    """

    store: RepositoryStore
    uses: list[RepositoryUse] = field(default_factory=list)
    fetched: set[str] = field(default_factory=set)
    unknown: list[Unknown] = field(default_factory=list)

    def bring(self, item: Repository, report: Report) -> None:
        """Make the store hold a pin with its submodules, and what its build clones.

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

"""The stores of built wheels that an install uses, and whether it may keep anything in them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from xpubuild.frozen import frozen
from xpubuild.supply.depot.keeping import Store
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.location import Location, Trust, trust_from
from xpubuild.supply.depot.wheel_server import ServedStore

if TYPE_CHECKING:
    from xpubuild.install.options import Options
    from xpubuild.supply.depot.served import Served


@frozen
class Stores:
    """The stores of an install, in the order they are asked; ``read_only`` says why none is written."""

    every: tuple[Store, ...] = ()
    read_only: str = ""

    @property
    def writable(self) -> tuple[FolderStore, ...]:
        """The stores that what was built is kept in."""
        folders = (store for store in self.every if isinstance(store, FolderStore))
        return () if self.read_only else tuple(store for store in folders if store.can_write())


#: Of a plan that is made for a look at it alone.
NO_STORES = Stores()


def own_store(trust: Trust) -> FolderStore:
    """Return the user's own store: the cache, in which repositories are kept too."""
    return FolderStore(platformdirs.user_cache_path("xpubuild"), trust, own=True)


def stores_of(options: Options) -> Stores:
    """Return the user's own store and those of the options; a server is not asked offline.

    Raises:
        UsageError: an account that the configuration trusts does not exist.
    """
    trust = trust_from(os.environ)
    found: list[Store] = [own_store(trust)]
    found += [
        store
        for place in options.store
        if (store := opened(place, trust, offline=options.offline)) is not None
    ]
    return Stores(tuple(found), read_only_because(options.store_read_only, os.environ))


def opened(place: Path | Location, trust: Trust, *, offline: bool = False) -> Store | None:
    """Return the store at a place, None for a server that is not to be asked."""
    if not isinstance(place, Location):
        return FolderStore(place, trust)
    if offline:
        return None

    def connect() -> Served:
        from xpubuild.supply.depot.served import Served  # noqa: PLC0415 - requests, for few

        return Served(place)

    return ServedStore(place, trust, connect)


def read_only_because(asked: bool | None, environ: Mapping[str, str]) -> str:
    """Return why no store is written: asked for, or a release or a change that nobody has reviewed yet in CI.

    Sources: the default environment variables of GitHub Actions, the predefined CI/CD variables of GitLab.
    """
    if asked is not None:
        return "--store-read-only" if asked else ""
    event, kind = environ.get("GITHUB_EVENT_NAME", ""), environ.get("GITHUB_REF_TYPE", "")
    if event in ("pull_request", "pull_request_target", "release") or kind == "tag":
        return f"this is a CI job of a {'tag' if kind == 'tag' else event.replace('_', ' ')}"
    if environ.get("GITLAB_CI") and environ.get("CI_MERGE_REQUEST_IID"):
        return "this is a CI job of a merge request"
    if environ.get("GITLAB_CI") and environ.get("CI_COMMIT_TAG"):
        return "this is a CI job of a tag"
    return ""

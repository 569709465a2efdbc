"""Sets: what one fetch needed, to check without a network whether all of it is present. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

from xpubuild.documents import plain
from xpubuild.frozen import frozen
from xpubuild.supply.git.urls import mirror_name
from xpubuild.supply.mirror.entries import (
    EntryError,
    canonical,
    entry_id,
    is_commit,
    is_sha256,
    read_as,
    sealed,
    unsealed,
)

SCHEMA = "xpubuild.mirror-set/1"
_DIGITS = 16


@frozen
class RepositoryUse:
    """One commit that a build needs. ``path`` is its place below ``component``'s tree, "" for the top.

    ``configure_time`` marks what the build clones itself; ``ref`` is the tag by which it asks for it.
    """

    component: str
    url: str
    commit: str
    path: str = ""
    ref: str | None = None
    configure_time: bool = False

    @property
    def id(self) -> str:
        """The id of the entry of its repository."""
        return entry_id("git", mirror_name(self.url, len(self.commit)))


@frozen
class MirrorSet:
    """What the build of ``recipe`` needs for these Python versions."""

    recipe: str
    pythons: tuple[str, ...]
    repositories: tuple[RepositoryUse, ...]
    files: tuple[str, ...]
    inputs: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the set as its file holds it, without digest."""
        return {"schema": SCHEMA, **plain(self)}

    @property
    def needs(self) -> frozenset[str]:
        """The ids of the entries of what it needs."""
        files = (entry_id("wheel", sha256) for sha256 in self.files)
        return frozenset((*(use.id for use in self.repositories), *files))

    @property
    def name(self) -> str:
        """The recipe's name and the digest of the content: the name of the set's file."""
        digest = hashlib.sha256(canonical(self.to_json())).hexdigest()
        return f"{self.recipe}-{digest[:_DIGITS]}"


def read_set(data: bytes) -> MirrorSet:
    """Return the set of a file.

    Raises:
        EntryError: the file is damaged.
    """
    needed = read_as(MirrorSet, unsealed(data, SCHEMA))
    if not all(map(is_sha256, needed.files)) or sealed(needed.to_json()) != data:
        raise EntryError("it has fields that a set does not have")
    for use in needed.repositories:
        try:
            mirror_name(use.url, len(use.commit))
        except ValueError as error:
            raise EntryError(f"'{use.url}' is not a URL: {error}") from error
        if not is_commit(use.commit):
            raise EntryError(f"'{use.commit}' is not a commit")
    return needed

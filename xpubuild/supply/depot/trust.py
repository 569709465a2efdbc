"""Whom to believe: a wheel from a store is installed, so whoever can put one there runs programs as you.

A folder is believed if only root, you and the accounts of ``trust.owners`` can change it. Any other store (a
folder that a group or everybody can write to or that is somebody else's, a server) is believed if the
configuration names it in ``trust.stores``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from xpubuild.engine.places import WRITABLE_BY_OTHERS
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.machine.oneapi_trust import OWNERS_VARIABLE, owners
from xpubuild.supply.depot.location import Location, parse_mirror

STORES_VARIABLE = "XPUBUILD_TRUSTED_STORES"
_UNNAMED = ", and no [trust] stores of your configuration names it"


@frozen
class Trust:
    """``stores`` are URLs and paths that are believed, ``owners`` the ids of users."""

    stores: frozenset[str]
    owners: frozenset[int]

    def names(self, place: Path | Location) -> bool:
        """Whether a store is named in the configuration."""
        return _written(place) in self.stores

    def believes(self, status: os.stat_result) -> bool:
        """Whether nobody but those who are believed can change what has this status."""
        return status.st_uid in self.owners and not status.st_mode & WRITABLE_BY_OTHERS

    def why_not(self, place: Path | Location, folders: Collection[os.stat_result]) -> str:
        """Return why a store is not believed, "" where it is; ``folders`` are those of a folder store."""
        if self.names(place):
            return ""
        if isinstance(place, Location):
            return f"it is on a server{_UNNAMED}"
        for status in folders:
            if status.st_uid not in self.owners:
                return f"it belongs to the user with the number {status.st_uid}{_UNNAMED}"
            if status.st_mode & WRITABLE_BY_OTHERS:
                return f"others can write to it{_UNNAMED}"
        return ""


def trust_from(environ: Mapping[str, str]) -> Trust:
    """Return whom the configuration believes; its files set these variables.

    Raises:
        UsageError: it names an account that is not known, or something that is no store.
    """
    named = filter(None, map(str.strip, environ.get(STORES_VARIABLE, "").split(",")))
    return Trust(
        frozenset(_written(parse_store(text)) for text in named),
        frozenset({0, os.geteuid(), *owners(environ.get(OWNERS_VARIABLE, ""))}),
    )


def parse_store(text: str) -> Path | Location:
    """Return the folder or the server of a store.

    Raises:
        UsageError: it is neither.
    """
    try:
        return parse_mirror(text)
    except UsageError as error:
        told = error.what.removeprefix("--mirror cannot be ")
        raise UsageError(
            f"a store cannot be {told}",
            why=error.why,
            fix="pass a folder, or the URL of a store: http://HOST/PATH, https://HOST/PATH",
        ) from None


def _written(place: Path | Location) -> str:
    return place.url if isinstance(place, Location) else os.path.realpath(place)

"""The local copy of a mirror that is served over http."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import platformdirs

from xpubuild.engine.events import Sink
from xpubuild.engine.process import Cancel
from xpubuild.supply.depot.location import Location
from xpubuild.supply.depot.served import Served, local_copy

#: Makes a sink where there is something to show; it is closed afterwards.
Telling = Callable[[], Sink]


def local_mirror(given: Location, recipe: str, *, telling: Telling, cancel: Cancel | None = None) -> Path:
    """Return the copy of a served mirror in the user's cache, brought up to date.

    Raises:
        FetchError: the server cannot be reached and the copy lacks something, or there is no mirror.
        SourceIntegrityError: a file on the server is damaged.
        UsageError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    into = platformdirs.user_cache_path("xpubuild") / "mirrors" / given.folder_name
    return local_copy(served(given, cancel), into, recipe, sink=telling, cancel=cancel)


def served(location: Location, cancel: Cancel | None = None) -> Served:
    """Return what reads the mirror at a location.

    Raises:
        ToolchainError: pip's configuration cannot be read.
    """
    return Served(location, cancel)

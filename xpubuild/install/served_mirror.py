"""The local copy of a mirror that is served over http."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs

from xpubuild.engine.events import Sink
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.frozen import frozen
from xpubuild.supply.mirror.remote.copying import bring_copy
from xpubuild.supply.mirror.remote.http import HttpRemote
from xpubuild.supply.mirror.remote.location import Location
from xpubuild.supply.mirror.remote.transport import Count, Remote

#: Makes a sink where there is something to tell; it is closed afterwards.
Telling = Callable[[], Sink]


def local_mirror(given: Location, recipe: str, *, telling: Telling, cancel: Cancel | None = None) -> Path:
    """Return the copy of a served mirror in the user's cache, brought up to date.

    Raises:
        FetchError: the server cannot be reached and the copy lacks something, or there is no mirror.
        SourceIntegrityError: a file on the server is damaged.
        UsageError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    into = platformdirs.user_cache_path("xpubuild") / "mirrors" / given.folder_name
    return bring_copy(
        remote_of(given, cancel), into, recipe, telling=_Told(telling, given.url), cancel=cancel
    )


def remote_of(location: Location, cancel: Cancel | None = None) -> Remote:
    """Return what reads the mirror at a location.

    Raises:
        ToolchainError: pip's configuration cannot be read.
    """
    return HttpRemote(location, cancel)


@frozen
class _Told:
    """Tells of a copy as of a run with one step, only where something is brought."""

    telling: Telling
    url: str

    @contextlib.contextmanager
    def bringing(self, size: int) -> Iterator[Count]:
        with contextlib.closing(self.telling()) as sink:
            teller, title = Teller(sink), f"copying from {self.url}"
            with teller.run("mirror", self.url, [("mirror", title)]), teller.doing("mirror", title):
                teller.expect(size)
                yield teller.count

    def notice(self, text: str, level: str = "info") -> None:
        with contextlib.closing(self.telling()) as sink:
            Teller(sink).notice(text, level)

"""A mirror that was filled once, and ways to serve it and to copy from it."""

from __future__ import annotations

from pathlib import Path

from integration.mirror_world import content
from support.indexes import PackageIndex

from xpubuild.engine.events import Event, Notice, NullSink, RunStarted, StepProgress
from xpubuild.supply.depot.location import Location, parse_place
from xpubuild.supply.depot.served import Served, local_copy


class Heard(NullSink):
    """What a copy showed: how often something was fetched, the bytes at its end, and notices."""

    def __init__(self) -> None:
        self.runs = 0
        self.counted = 0
        self.notices: list[str] = []

    def emit(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.runs += 1
        elif isinstance(event, StepProgress):
            self.counted = event.done
        elif isinstance(event, Notice):
            self.notices.append(f"{event.level}: {event.text}")


def location(url: str) -> Location:
    """Return a URL as the command line takes it."""
    found = parse_place(url, "--mirror")
    assert isinstance(found, Location)
    return found


def copy(url: str, into: Path, recipe: str = "demo") -> Heard:
    """Copy what a recipe needs; return what was told."""
    heard = Heard()
    local_copy(Served(location(url)), into, recipe, sink=lambda: heard)
    return heard


def serve(index: PackageIndex, mirror: Path) -> str:
    """Serve the files of a mirror; return its URL."""
    index.files = content(mirror)
    return f"{index.at()}/files"


def without_locks(mirror: Path) -> dict[str, bytes]:
    """Return the files of a mirror but those that are there while somebody writes."""
    return {path: data for path, data in content(mirror).items() if not path.startswith(".")}

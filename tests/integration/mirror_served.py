"""A mirror that was filled once, and ways to serve it and to copy from it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from integration.mirror_world import content
from support.indexes import PackageIndex

from xpubuild.install.served_mirror import remote_of
from xpubuild.supply.mirror.remote.copying import bring_copy
from xpubuild.supply.mirror.remote.location import Location, parse_mirror
from xpubuild.supply.mirror.remote.transport import Count


@dataclass
class Heard:
    """What a copy told: the bytes that were announced and counted, and its notices."""

    sizes: list[int] = field(default_factory=list)
    counted: int = 0
    notices: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def bringing(self, size: int) -> Iterator[Count]:
        self.sizes.append(size)

        def count(more: int, _: str) -> None:
            self.counted += more

        yield count

    def notice(self, text: str, level: str = "info") -> None:
        self.notices.append(f"{level}: {text}")


def location(url: str) -> Location:
    """Return a URL as the command line takes it."""
    found = parse_mirror(url)
    assert isinstance(found, Location)
    return found


def copy(url: str, into: Path, recipe: str | None = "demo") -> Heard:
    """Copy what a recipe needs; return what was told."""
    heard = Heard()
    bring_copy(remote_of(location(url)), into, recipe, telling=heard)
    return heard


def serve(index: PackageIndex, mirror: Path) -> str:
    """Serve the files of a mirror; return its URL."""
    index.files = content(mirror)
    return f"{index.at()}/files"


def without_locks(mirror: Path) -> dict[str, bytes]:
    """Return the files of a mirror but those that are there while somebody writes."""
    return {path: data for path, data in content(mirror).items() if not path.startswith(".")}

"""What of a workspace others use: what it was published as, and the environment that modulefiles lead to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from xpubuild.engine.places import share, unreachable, within
from xpubuild.errors import UsageError
from xpubuild.workspace.activation import read_receipt
from xpubuild.workspace.layout import Layout


def published(root: Path) -> list[Path]:
    """Return the wheel folders and modulefiles, as far as they are there, that the receipt names."""
    with contextlib.suppress(UsageError, OSError, TypeError, ValueError):
        # What somebody else has written there must not open folders of this user.
        if Layout(root).receipt.stat().st_uid == os.geteuid():
            return [path for path in map(Path, read_receipt(root).get("published", ())) if path.exists()]
    return []


def share_workspace(root: Path) -> None:
    """Let those for whom things are shared use the environment of a workspace; not its logs and sources.

    Raises:
        OSError: permissions cannot be changed.
    """
    share((root, *within(Layout(root).env)))


def closed(root: Path) -> list[tuple[Path, str]]:
    """Return what of a workspace is for others and closed to them: the folder or file to open, and why."""
    places = published(root)
    if any(path.is_file() for path in places):
        places.append(Layout(root).env)
    return [(place, why) for place in places if (why := why_closed(_parts(root, place)))]


def why_closed(paths: Iterable[Path]) -> str:
    """Return what of shared files and folders is closed to those for whom they are; "" for nothing."""
    found = unreachable(paths)
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"those for whom it is shared cannot read {found[0]}{more}" if found else ""


def open_again(root: Path, place: Path) -> None:
    """Open what ``closed`` named, as far as it is this user's; no folder above it but the workspace.

    Raises:
        OSError: permissions cannot be changed.
    """
    share(_parts(root, place))
    if place == Layout(root).env:
        share((root,))


def _parts(root: Path, place: Path) -> Iterator[Path]:
    """Yield what is shared there. A folder of wheels may have other things, which are nobody's."""
    if place == Layout(root).env:
        yield from within(place)
        return
    yield place
    for pattern in ("*.whl", "requirements.txt", "index.html"):
        yield from place.glob(pattern)

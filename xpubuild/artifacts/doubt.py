"""The note of an environment about what uv linked into it from its cache.

A file that uv installed may be one with the file in its cache (a hard link), so what is damaged here may be
damaged there. Who removes a damaged distribution notes its name as ``doubtful``: when uv has installed it
again, its content is compared with RECORD, and one that is wrong again is taken out of the cache.
``unfinished`` are the distributions that uv has begun to install: a RECORD that was cut short may look like a
whole one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from xpubuild.artifacts.site_packages import InstalledDist, prefix_of
from xpubuild.engine.files import write_atomic
from xpubuild.frozen import frozen

NOTE = ".xpubuild-uv.json"


@frozen
class Note:
    """Normalised names of distributions."""

    unfinished: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()


def read_note(site_packages: Path) -> Note:
    """Return the note of an environment; an empty one where there is none that can be read."""
    try:
        document = json.loads((prefix_of(site_packages) / NOTE).read_text("utf-8"))
        unfinished, doubtful = (_names(document[key]) for key in ("unfinished", "doubtful"))
    except (OSError, ValueError, KeyError, TypeError):
        return Note()
    return Note(unfinished, doubtful)


def write_note(site_packages: Path, note: Note) -> None:
    """Write the note, whole or not at all; remove it where it says nothing."""
    path = prefix_of(site_packages) / NOTE
    if note == Note():
        path.unlink(missing_ok=True)
        return
    document = {"unfinished": sorted(note.unfinished), "doubtful": sorted(note.doubtful)}
    write_atomic(path, json.dumps(document).encode() + b"\n")


def doubt(dists: list[InstalledDist]) -> None:
    """Note that the cache of uv may have the damage of these distributions too, where uv installed them."""
    names = {dist.name for dist in dists if installer_of(dist) == "uv"}
    if names:
        site_packages = dists[0].site_packages
        note = read_note(site_packages)
        write_note(site_packages, replace(note, doubtful=note.doubtful | names))


def installer_of(dist: InstalledDist) -> str:
    """Return the name of the program that installed a distribution, "" where that is not known."""
    try:
        return (dist.info / "INSTALLER").read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _names(value: object) -> frozenset[str]:
    if not isinstance(value, list):
        raise TypeError
    return frozenset(canonicalize_name(str(item)) for item in value)

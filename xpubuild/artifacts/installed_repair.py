"""Repairs an environment after pip was killed, so that pip can use it again.

pip refuses to remove a distribution without RECORD, takes one with METADATA for installed even if half of its
files are missing, and leaves ``~name`` folders behind. After ``repair`` the same pip command runs as if the
unfinished distributions had never been there.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from xpubuild.artifacts.site_packages import (
    InstalledDist,
    RecordEntry,
    damaged_dists,
    installed_dists,
    prefix_of,
    readable_entries,
    record_entries,
)
from xpubuild.engine.files import explained, read_json, remove_tree, write_json
from xpubuild.frozen import frozen

#: The file in an environment with its note.
NOTE = ".xpubuild-uv.json"
#: Without pip nothing could be installed again; an environment with a damaged pip is recreated instead.
KEEP = frozenset({"pip"})


@frozen
class Note:
    """What uv linked into an environment from its cache, by normalised names of distributions.

    A file that uv installed may be one with the file in its cache (a hard link), so what is damaged here may
    be damaged there. Who removes a damaged distribution notes its name as ``doubtful``: when uv has installed
    it again, its content is compared with RECORD, and one that is wrong again is removed from the cache.
    ``unfinished`` are the distributions that uv has begun to install: a RECORD that was cut short may look
    like a whole one.
    """

    unfinished: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()


def read_note(site_packages: Path) -> Note:
    """Return the note of an environment; an empty one where there is none that can be read."""
    document = read_json(prefix_of(site_packages) / NOTE)
    try:
        names = (map(canonicalize_name, document[key]) for key in ("unfinished", "doubtful"))
        return Note(*map(frozenset, names))
    except (KeyError, TypeError):
        return Note()


def write_note(site_packages: Path, note: Note) -> None:
    """Write the note, whole or not at all; remove it where it says nothing."""
    path = prefix_of(site_packages) / NOTE
    if note == Note():
        path.unlink(missing_ok=True)
        return
    write_json(path, {name: sorted(names) for name, names in vars(note).items()})


def _doubt(dists: list[InstalledDist]) -> None:
    """Note that the cache of uv may have the damage of these distributions too, where uv installed them."""
    names = {dist.name for dist in dists if dist.installer == "uv"}
    if names:
        note = read_note(dists[0].site_packages)
        write_note(dists[0].site_packages, replace(note, doubtful=note.doubtful | names))


def repair(site_packages: Path) -> list[str]:
    """Remove what an interrupted pip left; return what was removed, one line each, empty for a sound one.

    Files are removed only if a damaged or half-removed distribution recorded them, no sound one did, and they
    are in the environment. Files of a distribution whose RECORD was never written are not known and stay:
    pip writes over them.

    Raises:
        ToolchainError: something cannot be removed for want of permission.
    """
    with explained(site_packages, "looking for leftovers of an interrupted pip"):
        leftovers = list(iter_leftovers(site_packages))
    damaged, dists = damaged_dists(site_packages), installed_dists(site_packages)
    note = read_note(site_packages)
    for dist in dists:
        if dist.name in note.unfinished:
            damaged.setdefault(dist.info.name, "uv was interrupted while it installed it")
    if not damaged and not leftovers and not note.unfinished:
        return []
    sweeper = _Sweeper(site_packages, (dist for dist in dists if dist.info.name not in damaged))
    unsound = [dist for dist in dists if dist.info.name in damaged]
    _doubt(unsound)
    done = [
        f"{dist.info.name} and {sweeper.remove(dist)} of its files: {damaged[dist.info.name]}"
        for dist in unsound
        if dist.name not in KEEP
    ]
    for path in leftovers:
        if path.name.endswith(".dist-info"):
            sweeper.remove_files(InstalledDist("", "", path))
        remove_tree(path)
        done.append(f"{path.relative_to(site_packages)}, which pip had renamed before removing it")
    if note.unfinished:
        write_note(site_packages, Note(doubtful=read_note(site_packages).doubtful | note.unfinished))
    return done


def remove_dist(site_packages: Path, name: str) -> int:
    """Remove a distribution with the files that no other one recorded; return how many that were.

    Raises:
        ToolchainError: something cannot be removed for want of permission.
    """
    dists = installed_dists(site_packages)
    damaged = damaged_dists(site_packages)
    _doubt([dist for dist in dists if dist.name == name])
    sound = (dist for dist in dists if dist.name != name and dist.info.name not in damaged)
    sweeper = _Sweeper(site_packages, sound)
    return sum(sweeper.remove(dist) for dist in dists if dist.name == name)


def iter_leftovers(site_packages: Path) -> Iterator[Path]:
    """Yield the files and folders that pip renamed (``~name``) to remove them and did not come to remove."""
    pending = [site_packages]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.name.startswith("~"):
                    yield Path(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))


class _Sweeper:
    """Removes files inside of one environment, but for those that sound distributions recorded."""

    def __init__(self, site_packages: Path, sound: Iterable[InstalledDist]) -> None:
        self._site_packages = site_packages
        # Links on the way (lib64 -> lib) are followed; a link at the end of a path is a file like any other.
        self._prefix = prefix_of(site_packages).resolve()
        self._folders: dict[Path, Path] = {}
        self._claimed = {self._place(entry) for dist in sound for entry in record_entries(dist)}

    def remove(self, dist: InstalledDist) -> int:
        """Remove a distribution; return how many files of it that were."""
        count = self.remove_files(dist)
        remove_tree(dist.info)
        return count

    def remove_files(self, dist: InstalledDist) -> int:
        """Remove what RECORD lists, RECORD itself last: killed here, the same again finds the rest."""
        places = {self._place(entry) for entry in readable_entries(dist)} - self._claimed
        removed = sum(self._remove(place) for place in sorted(places) if place.parent != dist.info.resolve())
        for folder in sorted(
            {place.parent for place in places}, key=lambda path: len(path.parts), reverse=True
        ):
            self._remove_empty(folder)
        return removed

    def _remove(self, place: Path) -> bool:
        """Remove one file, and what Python compiled from it or was about to (``x.pyc.139977591848528``)."""
        if not place.is_relative_to(self._prefix):
            return False
        there = place.is_symlink() or place.is_file()
        with explained(place, f"removing {place.name}"):
            if there:
                place.unlink()
            if place.suffix == ".py":
                for compiled in (place.parent / "__pycache__").glob(f"{glob.escape(place.stem)}.*.pyc*"):
                    compiled.unlink(missing_ok=True)
        return there

    def _remove_empty(self, folder: Path) -> None:
        """Remove a folder and those above it as long as nothing is in them, never site-packages itself."""
        below = self._site_packages.resolve()
        while folder != below and folder.is_relative_to(below) and folder.is_dir():
            with explained(folder, f"removing {folder.name}"):
                inside = list(folder.iterdir())
                if inside == [folder / "__pycache__"] and not any((folder / "__pycache__").iterdir()):
                    (folder / "__pycache__").rmdir()
                elif inside:
                    return
                folder.rmdir()
            folder = folder.parent

    def _place(self, entry: RecordEntry) -> Path:
        """Where an entry really is, links in its folders followed."""
        parent = entry.path.parent
        if parent not in self._folders:
            self._folders[parent] = parent.resolve()
        return self._folders[parent] / entry.path.name

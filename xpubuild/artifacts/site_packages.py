"""Find what is installed in an environment by its files; the environment's Python is never started."""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import os
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from xpubuild.artifacts.record import parse_record
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.frozen import frozen

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# site-packages is PREFIX/lib/python3.X/site-packages.
_LEVELS_BELOW_PREFIX = 3
#: What pip and uv write beside the wheel's own files, and what they write at every installation.
INSTALLERS_OWN = frozenset(
    {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json"}
)


@frozen
class RecordEntry:
    """One line of an installed RECORD; ``size`` is in bytes, None where RECORD does not say.

    ``location`` is the file's path as text: there are some 20,000 in an environment, and a Path of each takes
    as long as all else that is done with it but hashing.
    """

    name: str
    location: str
    checksum: str
    size: int | None

    @property
    def path(self) -> Path:
        """Where the file is."""
        return Path(self.location)


@frozen
class InstalledDist:
    """One ``.dist-info`` folder. ``name`` is normalised."""

    name: str
    version: str
    info: Path

    @property
    def site_packages(self) -> Path:
        """The folder it is installed in."""
        return self.info.parent

    @property
    def installer(self) -> str:
        """The name of the program that installed it, "" where that is not known."""
        try:
            return (self.info / "INSTALLER").read_text("utf-8", "replace").strip()
        except OSError:
            return ""


def site_packages_of(env: Path) -> Path:
    """Return the site-packages folder of a virtual or conda environment.

    Raises:
        ToolchainError: the folder is no such environment, or has not exactly one such folder.
    """
    # Python of conda-forge has a link lib/python3.1 to its real folder.
    folders = (path for path in env.glob("lib/python3*/site-packages") if path.is_dir())
    found = sorted(path for path in folders if not path.parent.is_symlink())
    why = "it has neither pyvenv.cfg nor conda-meta"
    if is_environment(env):
        if len(found) == 1:
            return found[0]
        why = f"it has {len(found)} folders lib/python3*/site-packages instead of one"
    raise ToolchainError(
        f"{env} is not a complete Python environment",
        why=why,
        fix="remove the folder and run the same command again; it will be created again",
        commands=(f"rm -r '{env}'",),
        evidence={"env": str(env)},
    )


def is_environment(prefix: Path) -> bool:
    """Whether a folder is the prefix of a virtual environment or of one of conda packages."""
    return (prefix / "pyvenv.cfg").is_file() or (prefix / "conda-meta").is_dir()


def prefix_of(site_packages: Path) -> Path:
    """Return the folder that files of RECORD may be in: the environment, or site-packages itself.

    A RECORD line such as ``../../../bin/x`` leads into the environment only where this is one.
    """
    place = site_packages.absolute()
    prefix = Path(*place.parts[:-_LEVELS_BELOW_PREFIX])
    return prefix if is_environment(prefix) else place


def installed_dists(site_packages: Path) -> list[InstalledDist]:
    """Return every ``.dist-info`` folder, complete or not, sorted by name."""
    found = []
    for info in sorted(site_packages.glob("*.dist-info")):
        stem, _, version = info.name.removesuffix(".dist-info").rpartition("-")
        # pip renames what it is about to remove; such a folder is a leftover and no distribution.
        if info.is_dir() and stem and not stem.startswith("~"):
            found.append(InstalledDist(canonicalize_name(stem), version, info))
    return found


def runtime_folder(place: Path) -> Path:
    """Return the site-packages folder for an environment, or the folder itself where it has distributions.

    Raises:
        UsageError: it is neither.
        ToolchainError: it is an environment without a site-packages folder.
    """
    if is_environment(place):
        return site_packages_of(place)
    if place.is_dir() and installed_dists(place):
        return place
    raise UsageError(
        f"{place} is neither a Python environment nor a folder with installed distributions",
        why="it has no pyvenv.cfg, no conda-meta and no .dist-info folders",
        fix="pass the folder of an environment, such as the one of 'python -m venv'",
    )


def record_entries(dist: InstalledDist) -> list[RecordEntry]:
    """Return the lines of a distribution's RECORD.

    Raises:
        OSError: there is no RECORD, or it cannot be read.
        ValueError: it is not in the form of a RECORD.
    """
    place, text = str(dist.site_packages), (dist.info / "RECORD").read_text("utf-8")
    try:
        return [
            # Not a Path of each file.
            RecordEntry(name, os.path.join(place, name), checksum, int(size) if size else None)  # noqa: PTH118
            for name, checksum, size in parse_record(text)
        ]
    except csv.Error as error:
        raise ValueError(str(error)) from error


def readable_entries(dist: InstalledDist) -> list[RecordEntry]:
    """Return the lines of a distribution's RECORD; none of one that cannot be used."""
    try:
        return record_entries(dist)
    except (OSError, ValueError):
        return []


def content_key(dist: InstalledDist) -> str:
    """Return the sha256 of the names and hashes of what RECORD has of the wheel itself.

    Left out is what an installer makes or changes: scripts, compiled files, notes of its own.

    Raises:
        OSError, ValueError: there is no usable RECORD.
    """
    lines = (
        f"{entry.name},{entry.checksum}"
        for entry in record_entries(dist)
        if entry.checksum
        and not (entry.name.startswith("..") and "/bin/" in entry.name)
        and not (entry.name.startswith(dist.info.name) and PurePosixPath(entry.name).name in INSTALLERS_OWN)
    )
    return hashlib.sha256("\n".join(sorted(lines)).encode("utf-8", "surrogateescape")).hexdigest()


def quick_problem(dist: InstalledDist) -> str | None:
    """Say what an interrupted installation left undone, without reading files; None for a sound one.

    pip copies the wheel's own RECORD with the other files and replaces it at the very end by one that lists
    what pip itself made, INSTALLER among it. So a RECORD without INSTALLER is that of an unfinished run.
    """
    try:
        entries = record_entries(dist)
    except (OSError, ValueError) as error:
        return f"its RECORD cannot be used: {error}"
    if not (dist.info / "METADATA").is_file():
        return "it has no METADATA"
    if dist.installer == "conda":
        return None  # conda's builders change files after pip wrote the RECORD; conda-meta has the packages
    if not any(entry.name == f"{dist.info.name}/INSTALLER" for entry in entries):
        return "its installation was not completed"
    bad = [entry.name for entry in entries if wrong_size(entry)]
    return f"{len(bad)} of {len(entries)} files are missing or incomplete: {bad[0]}" if bad else None


def damaged_dists(site_packages: Path) -> dict[str, str]:
    """Return the ``.dist-info`` folders that are not sound: folder name -> what is wrong with it."""
    dists = installed_dists(site_packages)
    found = {}
    for dist in dists:
        twins = [other for other in dists if other.name == dist.name and other.info != dist.info]
        another = f"{twins[0].info.name}: another version is installed as well" if twins else None
        if problem := quick_problem(dist) or another:
            found[dist.info.name] = problem
    return found


def wrong_size(entry: RecordEntry) -> bool:
    """Whether a file is gone or has another size than RECORD says."""
    if optional(entry):
        return False
    try:
        found = os.stat(entry.location).st_size  # noqa: PTH116 - no Path of each file
    except OSError:
        return True
    return entry.size is not None and found != entry.size


def optional(entry: RecordEntry) -> bool:
    """Whether a file may be missing or another: Python makes what it compiled again.

    Some wheels ship such files with a hash (numpy before 2.4), and pip compiles over them.
    """
    if not entry.name.endswith(".pyc"):
        return False
    return not entry.checksum or "__pycache__" in entry.name.split("/")[-2:-1]


def declared(dist: InstalledDist, environment: Mapping[str, str] | None = None) -> list[Requirement]:
    """Return what a distribution asks for; see ``requirements_in``."""
    return requirements_in(importlib.metadata.PathDistribution(dist.info).requires or (), environment)


def requirements_in(lines: Iterable[str], environment: Mapping[str, str] | None = None) -> list[Requirement]:
    """Return what lines of Requires-Dist ask for, extras left out.

    ``environment`` are marker variables of the interpreter; without them those of this one stand in.
    """
    # Its parser takes time to import, and doctor asks for this module and not for requirements.
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415

    found: list[Requirement] = []
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({**(environment or {}), "extra": ""}):
            found.append(requirement)
    return found

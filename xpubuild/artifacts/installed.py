"""Checks the installed packages of an environment against their RECORD; its Python is never started."""

from __future__ import annotations

import bisect
import functools
import hashlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from xpubuild.artifacts.installed_repair import KEEP, remove_dist
from xpubuild.artifacts.record import HASHES, is_record_file, record_hash
from xpubuild.artifacts.site_packages import (
    INSTALLERS_OWN,
    InstalledDist,
    RecordEntry,
    content_key,
    installed_dists,
    optional,
    prefix_of,
    quick_problem,
    record_entries,
    wrong_size,
)
from xpubuild.artifacts.wheel import record_of
from xpubuild.engine.fingerprint import file_digest
from xpubuild.engine.model import SimpleProof
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen

#: Threads for the large files, beside the one that takes the small ones.
_THREADS = 3
_LARGE = 1 << 20
_MOST_SHOWN = 3


def verify_installed(site_packages: Path, names: Sequence[str]) -> dict[str, Any]:
    """Hash every file of some distributions and hold it against RECORD.

    ``names`` are names or requirements (``torch==2.13.0``). Returns for each name ``version``, ``record``
    (its ``.dist-info`` folder), ``content`` (``content_key``), ``files``, ``bytes`` and ``problems`` (empty
    for a sound one).
    """
    dists = {dist.name: dist for dist in installed_dists(site_packages)}
    found: dict[str, dict[str, Any]] = {}
    files: list[tuple[str, RecordEntry]] = []
    for name in names:
        dist, problem = _find(name, dists)
        problem = problem or (quick_problem(dist) if dist is not None else None)
        entries = record_entries(dist) if dist is not None and problem is None else []
        found[name] = {
            "version": None if dist is None else dist.version,
            "record": None if dist is None else str(dist.info),
            "content": "" if dist is None or problem is not None else content_key(dist),
            "files": len(entries),
            "bytes": sum(entry.size or 0 for entry in entries),
            "problems": [] if problem is None else [problem],
        }
        files += [(name, entry) for entry in entries]
    # All of them together: else one thread hashes the largest file of each, and the others wait for it.
    for name, problem in _content_problems(files):
        found[name]["problems"].append(problem)
    return found


def wheel_matches_installed(wheel: Path, site_packages: Path) -> list[str]:
    """Return how what is installed differs from a wheel, file by file; empty where it does not.

    The wheel's RECORD is the measure; the audit has compared it with the wheel's contents. Scripts are left
    out, because pip rewrites their first line.

    Raises:
        AuditError: the wheel cannot be read.
    """
    entries = []
    for name, (checksum, size) in record_of(wheel).items():
        target = _target(PurePosixPath(name), site_packages)
        if target is not None and checksum:
            entries.append(RecordEntry(name, str(target), checksum, int(size) if size.isdigit() else None))
    return content_problems(entries)


@frozen
class InstalledProof(SimpleProof):
    """Distributions are installed, file by file as their RECORD says."""

    site_packages: str
    names: tuple[str, ...]

    def describe(self) -> str:
        """Return what is checked."""
        return f"installed as recorded: {', '.join(self.names)}"

    def check(self) -> dict[str, Any]:
        """Return version, number of files and bytes of each distribution.

        Raises:
            AuditError: a distribution is not installed, or a file is not what RECORD says.
        """
        site = Path(self.site_packages)
        found = verify_installed(site, self.names)
        problems = [f"{name}: {problem}" for name, item in found.items() for problem in item["problems"]]
        if not problems:
            return {"installed": found}
        damaged = [Path(item["record"]) for item in found.values() if item["problems"] and item["record"]]
        more = f" and {len(problems) - _MOST_SHOWN} more" if len(problems) > _MOST_SHOWN else ""
        error = AuditError(
            f"the packages installed in {self.site_packages} do not match their records",
            why="; ".join(problems[:_MOST_SHOWN]) + more,
            fix="remove the record of the damaged package, then run the same command again to reinstall it"
            if damaged
            else "run the same command again",
            commands=[f"rm -r {shlex.quote(str(info))}" for info in damaged],
            evidence={"problems": problems},
        )
        error.mend = functools.partial(_remove, site, damaged) if damaged else None
        raise error

    def still(self, evidence: Mapping[str, Any]) -> None:
        """Compare RECORD with that of the installation: whoever changes a file writes its hash there too.

        Raises:
            AuditError: another content is recorded than when ``evidence`` was given.
        """
        site, resealed = Path(self.site_packages), sealed_again(Path(self.site_packages), evidence)
        damaged = [info for name, info in resealed.items() if name in {name_of(item) for item in self.names}]
        if damaged:
            error = AuditError(
                f"the record of {damaged[0].name} is not that of its installation",
                why="files were changed together with the hashes of them",
                fix="run the same command again: the packages are installed again",
                evidence={"records": [str(info) for info in damaged]},
            )
            error.mend = functools.partial(_remove, site, damaged)
            raise error


def sealed_again(site_packages: Path, evidence: Mapping[str, Any]) -> dict[str, Path]:
    """Return the distributions whose RECORD lists another content than evidence does: name -> its folder."""
    known = {name_of(name): item for name, item in evidence.get("installed", {}).items()}
    found = {}
    for dist in installed_dists(site_packages):
        content, version = (known.get(dist.name, {}).get(key) for key in ("content", "version"))
        # pip itself asks for its upgrade, and nothing else pins it.
        if not content or (dist.name in KEEP and dist.version != version):
            continue
        if quick_problem(dist) is None and content_key(dist) != content:
            found[dist.name] = dist.info
    return found


def name_of(requirement: str) -> str:
    """Return the normalised name in a requirement such as ``torch==2.13.0``."""
    return canonicalize_name(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])


def _remove(site: Path, damaged: Sequence[Path]) -> None:
    """Remove damaged distributions: pip takes one of the right version for installed."""
    for dist in installed_dists(site):
        if dist.info.name in {info.name for info in damaged} and dist.name not in KEEP:
            remove_dist(site, dist.name)


def _find(name: str, dists: Mapping[str, InstalledDist]) -> tuple[InstalledDist | None, str | None]:
    """Return the distribution that a requirement names, and what is wrong with its version."""
    try:
        requirement = Requirement(name)
        dist = dists.get(canonicalize_name(requirement.name))
        if dist is None:
            return None, "it is not installed"
        fits = requirement.specifier.contains(dist.version, prereleases=True)
    except (InvalidRequirement, InvalidVersion) as error:
        return None, str(error)
    return dist, None if fits else f"version {dist.version} is installed, {requirement.specifier} is required"


def content_problems(entries: Sequence[RecordEntry]) -> list[str]:
    """Return what is wrong with the content of files, by their hashes."""
    return [problem for _, problem in _content_problems([("", entry) for entry in entries])]


def _content_problems(files: Sequence[tuple[str, RecordEntry]]) -> list[tuple[str, str]]:
    """Return what is wrong with files, and whose each is.

    Only hashing a large file leaves the interpreter to other threads: a few take those, the largest first.
    """
    ordered = sorted(files, key=lambda item: item[1].size or 0)
    large = bisect.bisect(ordered, _LARGE, key=lambda item: item[1].size or 0)
    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            hashed = pool.map(_content_problem, (entry for _, entry in reversed(ordered[large:])))
            found = [(owner, _content_problem(entry)) for owner, entry in ordered[:large]]
            found += zip((owner for owner, _ in reversed(ordered[large:])), hashed, strict=True)
        finally:
            pool.shutdown(cancel_futures=True)  # whoever interrupts this thread does not wait for the others
    return sorted((owner, problem) for owner, problem in found if problem is not None)


def _content_problem(entry: RecordEntry) -> str | None:
    if optional(entry):
        return None
    algorithm = entry.checksum.partition("=")[0]
    try:
        if entry.size is not None and wrong_size(entry):
            return f"{entry.name} has {entry.path.stat().st_size} bytes instead of {entry.size}"
        known = algorithm in HASHES
        same = known and record_hash(file_digest(entry.location, algorithm), algorithm) == entry.checksum
    except OSError as error:
        return f"{entry.name} cannot be read: {error.strerror}"
    if not known:
        return None if is_record_file(entry.name) else f"{entry.name} has no hash in RECORD"
    return None if same else f"{entry.name} does not match its hash in RECORD"


def _target(name: PurePosixPath, site_packages: Path) -> Path | None:
    """Where pip puts a member of a wheel; None for what pip changes or writes itself."""
    first, *rest = name.parts
    if first.endswith(".dist-info") and name.name in INSTALLERS_OWN:
        return None
    if not first.endswith(".data"):
        return site_packages / name
    if rest and rest[0] in ("purelib", "platlib"):
        return site_packages.joinpath(*rest[1:])
    return prefix_of(site_packages).joinpath(*rest[1:]) if rest and rest[0] == "data" else None


def installed_stamp(site_packages: Path, names: Sequence[str]) -> int:
    """Return a number that changes when a recorded file is lost, or changes its size or one of its times.

    Cheap: one look at each file's entry. Compiled Python files come and go with use and do not count. The
    change time of a file with several names changes with every new one, such as that of the next environment
    that uv links from its cache; there it does not count, and the number of the file does, which another file
    cannot have.
    """
    wanted = {canonicalize_name(name) for name in names}
    total = hashlib.sha256()
    for dist in installed_dists(site_packages):
        if dist.name not in wanted:
            continue
        try:
            entries = record_entries(dist)
        except (OSError, ValueError):
            total.update(b"unreadable")
            continue
        paths = sorted(os.path.normpath(entry.location) for entry in entries)
        looks = [f"{path} {_look(path)}" for path in paths if not path.endswith(".pyc")]
        total.update("".join(looks).encode("utf-8", "surrogateescape"))
    return int.from_bytes(total.digest()[:7], "big")


def _look(path: str) -> str:
    try:
        status = os.lstat(path)
    except OSError:
        return "gone"
    last = status.st_ctime_ns if status.st_nlink == 1 else f"inode {status.st_ino}"
    return f"{status.st_size} {status.st_mtime_ns} {last}"

"""Brings the wheels of packages that pip has installed: from a mirror, or with pip from where they came.

A wheel counts only if its content is what is installed, file by file: an index may have another build of the
same name and version by now.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from xpubuild.artifacts.installed import wheel_matches_installed
from xpubuild.artifacts.site_packages import InstalledDist
from xpubuild.artifacts.wheel import read_wheel
from xpubuild.engine import files
from xpubuild.engine.environment import base_environment
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.process import Cancel, run
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen
from xpubuild.supply.depot.folder import Depot

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
#: What an audit of a wheel calls content that is not what its RECORD says.
_DAMAGE = ("record", "changed", "damaged", "duplicate")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@frozen
class Origin:
    """Where pip took a package from, as its report says."""

    url: str
    sha256: str


@frozen
class Supply:
    """Where prebuilt wheels come from. ``texts`` are the requirement files, ``origins`` what pip reported."""

    python: Path
    site_packages: Path
    origins: Mapping[str, Origin]
    texts: tuple[str, ...]
    mirror: Path | None
    offline: bool
    cancel: Cancel

    def bring(self, dist: InstalledDist, folder: Path) -> Path | None:
        """Put the wheel of a distribution into a folder; None where it cannot be had."""
        for path in sorted(folder.glob("*.whl")):
            if self._is_it(path, dist):
                return path
        for path in self._in_the_mirror(dist):
            if self._is_it(path, dist):
                return files.copy_durable(path, folder)
        return self._by_pip(dist, folder)

    def hashes(self, dist: InstalledDist) -> tuple[str, ...]:
        """Return the hashes that a distribution's wheel may have."""
        origin = self.origins.get(dist.name)
        if origin is not None and origin.sha256:
            return (origin.sha256,)
        return tuple(sha256 for text in self.texts for sha256 in _hashes(text, dist))

    def _is_it(self, wheel: Path, dist: InstalledDist) -> bool:
        """Whether a wheel is the one that is installed, by its name and then by every file."""
        try:
            name, version, _, _ = parse_wheel_filename(wheel.name)
            if (name, version) != (dist.name, Version(dist.version)):
                return False
            # Its RECORD first against what is installed, then all that it holds against its RECORD.
            return not wheel_matches_installed(wheel, self.site_packages) and self._is_whole(wheel, dist)
        except (InvalidWheelFilename, InvalidVersion, AuditError):
            return False

    def _is_whole(self, wheel: Path, dist: InstalledDist) -> bool:
        origin = self.origins.get(dist.name)
        if origin is not None and origin.sha256:
            return file_sha256(wheel) == origin.sha256
        return not any(problem.kind in _DAMAGE for problem in read_wheel(wheel).problems)

    def _in_the_mirror(self, dist: InstalledDist) -> Iterator[Path]:
        for entry in Depot(self.mirror).files() if self.mirror is not None else ():
            if self.mirror is not None and canonicalize_name(entry.dist) == dist.name:
                yield self.mirror / entry.files[0].path

    def _by_pip(self, dist: InstalledDist, folder: Path) -> Path | None:
        """Let pip bring it from where it came, else from the indexes that pip is configured with."""
        origin = self.origins.get(dist.name)
        asked = [f"{dist.name}=={dist.version}"]
        if origin is not None:
            fragment = f"#sha256={origin.sha256}" if origin.sha256 else ""
            asked.insert(0, f"{dist.name} @ {origin.url}{fragment}")
        for requirement in asked:
            is_here = origin is not None and urlsplit(origin.url).scheme == "file" and "@" in requirement
            if self.offline and not is_here:
                continue
            with scratch_folder("wheels", folder) as scratch:
                self._download(requirement, scratch)
                for path in scratch.glob("*.whl"):
                    if self._is_it(path, dist):
                        return files.publish_file(path, folder)
        return None

    def _download(self, requirement: str, folder: Path) -> None:
        argv = [
            str(self.python), "-I", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:",
            "--no-input", "--disable-pip-version-check", "--quiet", "--dest", str(folder), requirement,
        ]  # fmt: skip
        run(argv, env=base_environment(), cwd=folder, cancel=self.cancel)
        self.cancel.stop_here()


def origins_of(reports: Iterator[Path] | list[Path]) -> dict[str, Origin]:
    """Return by name what pip's reports say of each package that it installed."""
    found: dict[str, Origin] = {}
    for report in reports:
        with contextlib.suppress(OSError, ValueError, KeyError):
            for item in json.loads(report.read_text("utf-8")).get("install", []):
                info = item["download_info"]
                sha256 = info.get("archive_info", {}).get("hashes", {}).get("sha256", "")
                found[canonicalize_name(item["metadata"]["name"])] = Origin(str(info["url"]), str(sha256))
    return found


def _hashes(text: str, dist: InstalledDist) -> Iterator[str]:
    """Yield the hashes that a requirement file has for a distribution; its lines may be continued."""
    for line in text.replace("\\\n", " ").splitlines():
        pin = _PIN.match(line.strip())
        if pin and canonicalize_name(pin[1]) == dist.name and pin[2] == dist.version:
            yield from _HASH.findall(line)

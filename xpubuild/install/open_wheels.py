"""Wheels without a hash in the recipe: finds their hashes for a lock, and checks them after installation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.install.planner import OpenWheel, inputs_of
from xpubuild.install.target import Target
from xpubuild.supply.depot.folder import Depot
from xpubuild.supply.uv.ask import Asker, Prebuilt
from xpubuild.supply.uv.program import find_uv


def open_hashes(target: Target, *, report: Callable[[str], None], cancel: Cancel) -> dict[str, list[str]]:
    """Return component -> sha256 of every file of its wheel's release, as far as known.

    The mirror is queried first, then the wheel's own indexes. A hash that neither knows is left open in the
    lock.

    Raises:
        InterruptedByUserError: ``cancel`` was set.
    """
    downloads, found = target.downloads, {}
    mirror = Depot.open(downloads.mirror) if downloads.mirror is not None else None
    for wheel in inputs_of(target).wheels:
        hashes = sorted({f"sha256:{item}" for item in in_depot(mirror, wheel)})
        if not hashes and not downloads.offline:
            hashes = _of_indexes(wheel, target, cancel)
        if hashes:
            found[wheel.component] = hashes
        else:
            report(f"no hash of {wheel.dist} {wheel.version} was found; the lock leaves it open")
    return found


def in_depot(depot: Depot | None, wheel: OpenWheel) -> Iterable[str]:
    """Yield the sha256 of every file of a wheel that a mirror has; 1.0 is found as 1.0+xpu too, as by pip."""
    asked = SpecifierSet(f"=={wheel.version}")
    for entry in depot.files() if depot is not None else ():
        is_named = entry.kind == "wheel" and entry.dist == canonicalize_name(wheel.dist)
        if is_named and asked.contains(entry.version, prereleases=True):
            yield entry.sha256


def _of_indexes(wheel: OpenWheel, target: Target, cancel: Cancel) -> list[str]:
    uv = find_uv().path
    if not uv:
        return []
    asker = Asker(uv, target.python_version, base_environment(), cancel)
    return asker.hashes(Prebuilt(wheel.dist, wheel.version, wheel.indexes))


@frozen
class LockedWheelProof:
    """The proof that pip installed a wheel with a hash of the lock; ``report`` is what pip wrote."""

    report: str
    dist: str
    hashes: tuple[str, ...]

    def describe(self) -> str:
        """Return what is checked."""
        return f"the wheel of {self.dist} matches the lock"

    def key(self) -> dict[str, Any]:
        """Return what the proof depends on: nothing that the step itself does not, see ``LockedProof``."""
        return {}

    def check(self) -> dict[str, Any]:
        """Return the hash that pip saw.

        Raises:
            SourceIntegrityError: it is none of the lock's.
        """
        found = None
        for item in json.loads(Path(self.report).read_text("utf-8")).get("install", []):
            if canonicalize_name(item["metadata"]["name"]) == canonicalize_name(self.dist):
                found = item.get("download_info", {}).get("archive_info", {}).get("hashes", {}).get("sha256")
        if f"sha256:{found}" not in self.hashes:
            raise SourceIntegrityError(
                f"the installed wheel of {self.dist} does not match the lock",
                why=f"its sha256 is {found or 'unknown'}, the lock has {', '.join(self.hashes)}",
                fix=(
                    "find out why the index has another file of this name; if that is correct, create a "
                    "new lock"
                ),
                evidence={"dist": self.dist, "sha256": found, "lock": list(self.hashes)},
            )
        return {"sha256": found}

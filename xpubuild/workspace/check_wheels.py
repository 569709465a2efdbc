"""Hashes the wheels that a workspace has built: against the journal, and what is installed against them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from xpubuild.artifacts.installed import wheel_matches_installed
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.journal import Journal
from xpubuild.engine.state import published_hashes
from xpubuild.workspace.check_model import Damage, Found
from xpubuild.workspace.layout import Layout


def check_wheels(layout: Layout, journal: Journal, found: Found, site_packages: Path | None) -> None:
    """Hash the wheels of finished steps; an installed package must be the wheel that was built for it."""
    records = {record.step: record for record in journal.records() if record.status == "done"}
    known: set[Path] = set()
    made: dict[str, list[Path]] = {}
    for step, record in records.items():
        for name, sha256 in published_hashes(record).items():
            path = Path(name)
            known.add(path)
            found.wheels += 1
            why = _why(path, sha256)
            if why:
                found.damaged.append(Damage("wheel", path.name, name, why, step))
                continue
            found.bytes += path.stat().st_size
            component = step.rpartition(".")[0]
            if f"{component}.install" in records:
                made.setdefault(component, []).append(path)
    for wheels in made.values():
        _check_installed(wheels, site_packages, found)
    extra = set(layout.wheels.glob("*.whl")) - known
    found.unowned += sorted(map(str, extra))


def _why(path: Path, sha256: str) -> str:
    try:
        digest = file_sha256(path)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return "" if digest == sha256 else f"its sha256 is {digest}, it was built as {sha256}"


def _check_installed(wheels: Sequence[Path], site_packages: Path | None, found: Found) -> None:
    """Hold an installed package against its wheels: the one that was built, and the portable one of it."""
    if site_packages is None:
        return
    problems = min((wheel_matches_installed(wheel, site_packages) for wheel in wheels), key=len)
    name = wheels[0].name.split("-")[0].replace("_", "-").lower()
    if problems and not any(item.kind == "package" and item.name == name for item in found.damaged):
        why = f"not the wheel that was built: {problems[0]}"
        found.damaged.append(Damage("package", name, str(site_packages), why))


def check_receipt(layout: Layout, found: Found) -> None:
    """Look whether the receipt, where there is one, can be read and says what the wheels are."""
    if not layout.receipt.exists():
        return
    try:
        document = json.loads(layout.receipt.read_bytes().decode("utf-8"))
        wheels = {str(item["path"]): str(item["sha256"]) for item in document["wheels"]}
    except (OSError, ValueError, TypeError, KeyError) as error:
        why = f"it cannot be read: {error}"
        found.damaged.append(Damage("receipt", layout.receipt.name, str(layout.receipt), why))
        return
    damaged = {item.path for item in found.damaged}
    for path, sha256 in wheels.items():
        why = _why(Path(path), sha256) if path not in damaged else ""
        if why:
            found.damaged.append(Damage("wheel", Path(path).name, path, f"not as the receipt says: {why}"))

"""Every workspace of a user, and the caches beside them: what each is, how large, how old. Reads only."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpubuild.engine.disk import disk_usage
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import held_by
from xpubuild.errors import UsageError, XpuBuildError
from xpubuild.workspace.activation import read_receipt
from xpubuild.workspace.layout import Layout

if TYPE_CHECKING:
    from xpubuild.workspace.overview_json import OverviewDocument, WorkspaceRow

_JOURNAL = "journal.db"


def workspaces_in(folder: Path) -> tuple[Path, ...]:
    """Return the workspaces in the folder of default workspaces."""
    return tuple(sorted(path.parent for path in folder.glob(f"*/{_JOURNAL}")))


def overview_document(folder: Path, cache: Path, entered: Path | None) -> OverviewDocument:
    """Return ``xpubuild.overview/1``: the workspaces in ``folder``, the active one, and the caches."""
    roots = dict.fromkeys(workspaces_in(folder))
    if entered is not None and (entered / _JOURNAL).is_file():
        roots.setdefault(entered)
    caches = sorted(path for path in cache.iterdir() if path.is_dir()) if cache.is_dir() else []
    return {
        "schema": "xpubuild.overview/1",
        "folder": str(folder),
        "workspaces": [workspace_row(root) for root in roots],
        "caches": [{"name": path.name, "path": str(path), "size_bytes": disk_usage(path)} for path in caches],
    }


def workspace_row(root: Path) -> WorkspaceRow:
    """Return what is known of one workspace; null where nothing tells it."""
    runs = _runs(root)
    receipt = _receipt(root)
    last = runs[-1] if runs else {}
    verify = receipt.get("verify") or {}
    report = Layout(root).verify_report
    return {
        "name": root.name,
        "path": str(root),
        "recipe": receipt.get("recipe") or last.get("recipe"),
        "torch": _torch(receipt),
        "state": _state(root, runs, receipt),
        "size_bytes": disk_usage(root),
        "wheels_bytes": disk_usage(Layout(root).wheels),
        "last_used": last.get("ended") or last.get("started"),
        "verify": verify.get("status"),
        "verified": _modified(report) if verify else None,
    }


def _runs(root: Path) -> list[dict[str, Any]]:
    try:
        with Journal(root / _JOURNAL, read_only=True) as journal:
            return journal.runs()
    except XpuBuildError:
        return []


def _receipt(root: Path) -> Mapping[str, Any]:
    try:
        return read_receipt(root)
    except XpuBuildError:
        return {}


def _state(root: Path, runs: list[dict[str, Any]], receipt: Mapping[str, Any]) -> str:
    if held_by(root):
        return "in use"
    if not runs:
        return "unknown"
    status = runs[-1]["status"]
    if status == "ok":
        return str(receipt.get("status", "partial"))
    return "interrupted" if status in (None, "cancelled") else str(status)


def _torch(receipt: Mapping[str, Any]) -> str | None:
    every = (*receipt.get("wheels", ()), *receipt.get("prebuilt", ()))
    return next((str(item["version"]) for item in every if item.get("name") == "torch"), None)


def _modified(path: Path) -> float | None:
    with contextlib.suppress(OSError):
        return path.stat().st_mtime
    return None


_MOST = 10_000
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}


def age_of(text: str) -> datetime.timedelta:
    """Return an age such as 30d, 8w, 6m or 1y; a number alone means days.

    Raises:
        UsageError: it is none.
    """
    number, unit = (text[:-1], text[-1]) if text[-1:] in _DAYS else (text, "d")
    if not number.isdecimal() or not 0 < int(number) < _MOST:
        raise UsageError(
            f"--older must be an age, not '{text}'", fix="use an age such as 30d, 8w, 6m (months) or 1y"
        )
    return datetime.timedelta(days=int(number) * _DAYS[unit])


def unused_since(folder: Path, moment: float) -> tuple[Path, ...]:
    """Return the workspaces whose last run ended before ``moment``, none that is in use."""
    found = []
    for root in workspaces_in(folder):
        runs = _runs(root)
        last = (runs[-1]["ended"] or runs[-1]["started"]) if runs else None
        if last is not None and last < moment and not held_by(root):
            found.append(root)
    return tuple(found)

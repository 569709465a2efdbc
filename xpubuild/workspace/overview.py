"""Every workspace of a user, and the caches beside them: what each is, how large, how old. Reads only."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import held_by
from xpubuild.engine.places import within
from xpubuild.errors import UsageError, XpuBuildError
from xpubuild.workspace.activation import read_receipt
from xpubuild.workspace.layout import Layout, workspaces_in

if TYPE_CHECKING:
    from xpubuild.workspace.workspace_json import OverviewDocument, WorkspaceRow

_MOST = 10_000
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}


def overview_document(folder: Path, cache: Path, entered: Path | None) -> OverviewDocument:
    """Return ``xpubuild.overview/1``: the workspaces in ``folder``, the active one, and the caches."""
    roots = dict.fromkeys(workspaces_in(folder))
    if entered is not None and Layout(entered).journal.is_file():
        roots.setdefault(entered)
    caches = sorted(path for path in cache.iterdir() if path.is_dir()) if cache.is_dir() else []
    return {
        "schema": "xpubuild.overview/1",
        "folder": str(folder),
        "workspaces": [_row(root) for root in roots],
        "caches": [{"name": path.name, "path": str(path), "size_bytes": disk_usage(path)} for path in caches],
    }


def _row(root: Path) -> WorkspaceRow:
    """Return what is known of one workspace; null if unknown."""
    last, receipt = _last_run(root), _receipt(root)
    verify = receipt.get("verify") or {}
    verified = None
    if verify:
        with contextlib.suppress(OSError):
            verified = Layout(root).verify_report.stat().st_mtime
    packages = (*receipt.get("wheels", ()), *receipt.get("prebuilt", ()))
    return {
        "name": root.name,
        "path": str(root),
        "recipe": receipt.get("recipe") or last.get("recipe"),
        "torch": next((str(item["version"]) for item in packages if item.get("name") == "torch"), None),
        "state": "in use" if held_by(root) else _state(last, receipt),
        "size_bytes": disk_usage(root),
        "wheels_bytes": disk_usage(Layout(root).wheels),
        "last_used": last.get("ended") or last.get("started"),
        "verify": verify.get("status"),
        "verified": verified,
    }


def _last_run(root: Path) -> Mapping[str, Any]:
    with contextlib.suppress(XpuBuildError), Journal(Layout(root).journal, read_only=True) as journal:
        return next(reversed(journal.runs()), {})
    return {}


def _receipt(root: Path) -> Mapping[str, Any]:
    with contextlib.suppress(XpuBuildError):
        return read_receipt(root)
    return {}


def _state(last: Mapping[str, Any], receipt: Mapping[str, Any]) -> str:
    if not last:
        return "unknown"
    if last["status"] == "ok":
        return str(receipt.get("status", "partial"))
    return "interrupted" if last["status"] in (None, "cancelled") else str(last["status"])


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


def disk_usage(*paths: Path) -> int:
    """Return the bytes that files and folders take on their disk, 0 for what is not there.

    A file with several names among them counts once.
    """
    found: dict[tuple[int, int], int] = {}
    for path in paths:
        for item in [path] if path.is_symlink() else within(path):
            with contextlib.suppress(OSError):
                status = item.lstat()
                found[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(found.values())

"""Every workspace of a user, and the caches beside them: what each is, how large, how old. Reads only."""

from __future__ import annotations

import contextlib
import datetime
import re
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import held_by
from xpubuild.engine.places import within
from xpubuild.errors import UsageError, XpuBuildError
from xpubuild.workspace.activation import read_receipt
from xpubuild.workspace.layout import Layout, workspaces_in

_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}


class WorkspaceRow(TypedDict):
    """One workspace; null is unknown."""

    name: str
    path: str
    recipe: str | None
    torch: str | None
    """The version that is installed."""
    state: str
    """complete, partial, failed, interrupted, in use, or unknown."""
    size_bytes: int
    """On the disk; a file with several names counts once."""
    wheels_bytes: int
    """The part of it that is wheels."""
    last_used: float | None
    """When the last install ended, in seconds since the epoch."""
    verify: str | None
    """Result of the last verify."""
    verified: float | None
    """When that was, in seconds since the epoch."""


class CacheRow(TypedDict):
    """A folder of the user's cache."""

    name: str
    path: str
    size_bytes: int


class OverviewDocument(TypedDict):
    """Every workspace below the default folder, the active one, and the caches."""

    schema: Literal["xpubuild.overview/1"]
    """Name and version."""
    folder: str
    workspaces: list[WorkspaceRow]
    caches: list[CacheRow]


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
    last, receipt = dict[str, Any](), dict[str, Any]()
    with contextlib.suppress(XpuBuildError), Journal(Layout(root).journal, read_only=True) as journal:
        last = next(reversed(journal.runs()), last)
    with contextlib.suppress(XpuBuildError):
        receipt = read_receipt(root)
    states = {"ok": receipt.get("status", "partial"), "cancelled": "interrupted", "failed": "failed"}
    state = states.get(last["status"], "interrupted") if last else "unknown"
    verify = receipt.get("verify") or {}
    verified = None
    if verify:
        with contextlib.suppress(OSError):
            verified = Layout(root).verify_report.stat().st_mtime
    packages = (*receipt.get("wheels", ()), *receipt.get("prebuilt", ()))
    return {
        "name": root.name, "path": str(root), "recipe": receipt.get("recipe") or last.get("recipe"),
        "torch": next((str(item["version"]) for item in packages if item.get("name") == "torch"), None),
        "state": "in use" if held_by(root) else str(state),
        "size_bytes": disk_usage(root), "wheels_bytes": disk_usage(Layout(root).wheels),
        "last_used": last.get("ended") or last.get("started"), "verify": verify.get("status"),
        "verified": verified,
    }  # fmt: skip


def age_of(text: str) -> datetime.timedelta:
    """Return an age such as 30d, 8w, 6m or 1y; a number alone means days.

    Raises:
        UsageError: it is none.
    """
    found = re.fullmatch(r"0*([1-9][0-9]{0,3})([dwmy]?)", text)
    if found is None:
        fix = "use an age such as 30d, 8w, 6m (months) or 1y"
        raise UsageError(f"--older must be an age, not '{text}'", fix=fix)
    return datetime.timedelta(days=int(found[1]) * _DAYS[found[2] or "d"])


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

"""A folder of jobs: written, never over somebody else's, and read again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from xpubuild.engine.files import explained, write_atomic
from xpubuild.engine.places import make_shared, reached_by
from xpubuild.errors import UsageError
from xpubuild.jobs.render import MANIFEST, SCHEMA
from xpubuild.untrusted import json_value, read_text

_SCRIPT = 0o755
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class PlannedJob(TypedDict):
    """A job of the folder."""

    name: str
    """With the digest of lock and step."""
    kind: Literal["fetch", "build", "verify", "report"]
    needs: list[str]
    """Jobs that must be done first; of a report, those that it is about."""


class PlannedJobsDocument(TypedDict):
    """A folder of job scripts that was written."""

    schema: Literal["xpubuild.planned-jobs/1"]
    """Name and version."""
    folder: str
    scheduler: Literal["slurm", "pbs"]
    submit: str
    """The script that submits what is neither done nor queued."""
    jobs: list[PlannedJob]


def require_place(folder: Path) -> None:
    """Refuse a folder that has other files, before anything is planned.

    Raises:
        UsageError: it is not empty and not a folder of jobs, or its path cannot be in a script.
        ToolchainError: it cannot be read.
    """
    if not str(folder).isprintable():
        raise UsageError(
            f"the path {str(folder)!r} cannot be in a script", fix="use another one with --output"
        )
    with explained(folder, "reading the folder of jobs"):
        if not folder.exists():
            return
        present = folder.is_dir() and sorted(path.name for path in folder.iterdir())
    if present == [] or read_manifest(folder) is not None:
        return
    raise UsageError(
        f"{folder} is not a folder of jobs of xpubuild",
        why=f"it has {', '.join(present[:5])}" if present else "it is a file",
        fix="use an empty or new folder with --output DIR",
    )


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return what the folder's jobs are; None where it is no folder of jobs.

    Names become paths, so a stranger's are looked at.
    """
    try:
        found: dict[str, Any] = json_value(read_text(folder / MANIFEST))
        whole = (
            found["schema"] == SCHEMA
            and found["scheduler"] in ("slurm", "pbs")
            and type(found["jobs"]) is list
        )
        rows = [(_NAME.fullmatch(job["name"]), job["kind"], job["cell"]) for job in found["jobs"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if whole and all(name for name, *_ in rows) else None


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the files of a folder; scripts of an earlier plan go, what jobs have made stays.

    Raises:
        UsageError: the folder is somebody else's.
        NoSpaceError, ToolchainError: it cannot be written.
    """
    require_place(reached_by(folder, "--output"))
    with explained(folder, "making the folder of jobs"):
        make_shared(folder)
        earlier = {f"jobs/{job['name']}.sh" for job in (read_manifest(folder) or {"jobs": ()})["jobs"]}
        for path in sorted(earlier - texts.keys()):
            (folder / path).unlink(missing_ok=True)
    # The manifest first: it marks a half-written folder as one of xpubuild.
    for path, text in texts.items():
        target = folder / path
        write_atomic(target, text.encode("utf-8", "surrogateescape"))
        if path == "submit" or path.startswith("jobs/"):
            target.chmod(_SCRIPT)

"""A folder of jobs: written, never over somebody else's, and what became of its jobs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import explained, write_atomic
from xpubuild.engine.places import make_shared, reached_by
from xpubuild.engine.process import probe
from xpubuild.errors import UsageError
from xpubuild.jobs.render import MANIFEST, SCHEMA, fixed_script
from xpubuild.untrusted import json_value, read_text

_SCRIPT = 0o755
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_DEADLINE_S = 20.0
#: Variables that lead a scheduler's programs to it.
_OF_SCHEDULER = ("SLURM_", "PBS_", "KRB5")
#: What a job wrote about its last attempt.
_ENDED = {"failed": "failed", "site": "site failure", "time": "time limit", "cancelled": "cancelled"}


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


class JobRow(TypedDict):
    """A job, and what is known of it."""

    name: str
    kind: Literal["fetch", "build", "verify", "report"]
    build: str
    """The build that it belongs to."""
    state: str
    """done, failed, site failure, time limit, cancelled, ended, gone (it left no word), not submitted,
    unknown, or the scheduler's word: pending, running, ..."""
    id: str | None
    """The scheduler's number."""
    exit_code: int | None
    """Of the command that failed."""


class JobsDocument(TypedDict):
    """The jobs of a folder: what they wrote themselves, and what the scheduler says."""

    schema: Literal["xpubuild.jobs/1"]
    """Name and version."""
    folder: str
    scheduler: Literal["slurm", "pbs"]
    answered: bool
    """Whether the scheduler answered."""
    jobs: list[JobRow]


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
    # The manifest first: a folder that is half written is ours.
    for path, text in texts.items():
        target = folder / path
        write_atomic(target, text.encode("utf-8", "surrogateescape"))
        if path == "submit" or path.startswith("jobs/"):
            target.chmod(_SCRIPT)


def jobs_document(folder: Path) -> JobsDocument:
    """Return ``xpubuild.jobs/1``; where the scheduler does not answer, what nothing else tells is unknown.

    Raises:
        UsageError: it is no folder of jobs.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise UsageError(
            f"{folder} is not a folder of jobs",
            why="it has no jobs.json that 'xpubuild plan' wrote",
            fix="name the folder that 'plan --format slurm' has made",
        )
    queue = _queue(folder, manifest["scheduler"])
    return {
        "schema": "xpubuild.jobs/1",
        "folder": str(folder),
        "scheduler": manifest["scheduler"],
        "answered": queue is not None,
        "jobs": [_row(folder, job, queue) for job in manifest["jobs"]],
    }


def _queue(folder: Path, scheduler: str) -> Mapping[str, tuple[str, str]] | None:
    """Return name -> (id, state) of what is queued; None where nobody answers."""
    # Our own copy of the script: the folder may be a stranger's.
    script = 'folder=$1; . "$2"; queued'
    words = ["bash", "-c", script, "xpubuild", str(folder), str(fixed_script(scheduler))]
    own = {name: value for name, value in os.environ.items() if name.startswith(_OF_SCHEDULER)}
    answer = probe(words, env={**base_environment(), **own}, deadline_s=_DEADLINE_S)
    if not answer.ok:
        return None
    rows = [line.split(None, 2) for line in answer.stdout.splitlines()]
    return {row[2]: (row[0], row[1].lower()) for row in rows if len(row) == 3}  # noqa: PLR2004


def _row(folder: Path, job: Mapping[str, Any], queue: Mapping[str, tuple[str, str]] | None) -> JobRow:
    name = job["name"]
    ended, submitted = _text(folder / "ended" / name).split(), _text(folder / "ids" / name).strip()
    found = (queue or {}).get(name)
    word, code = (ended[0], int(ended[1])) if len(ended) > 1 and ended[1].isdigit() else ("", None)
    if (folder / "done" / name).exists():
        state = "done"
    elif found is not None:
        state = found[1]
    elif word in _ENDED:
        state = _ENDED[word] if queue is not None or word == "failed" else "unknown"
    elif not submitted:
        state = "not submitted"
    elif queue is None:
        state = "unknown"
    else:
        state = "ended" if job["kind"] == "report" else "gone"
    return {
        "name": name, "kind": job["kind"], "build": job["cell"], "state": state,
        "id": found[0] if found else submitted or None,
        "exit_code": code if state in _ENDED.values() else None,
    }  # fmt: skip


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""

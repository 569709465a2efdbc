"""What became of a folder's jobs: what they wrote themselves, beside one query of the scheduler."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import probe
from xpubuild.errors import UsageError
from xpubuild.jobs.folder import read_manifest
from xpubuild.jobs.render import script_of

_DEADLINE_S = 20.0
_TELLS = ("SLURM_", "PBS_", "KRB5")
#: What a job wrote about its last attempt.
_ENDED = {"failed": "failed", "site": "site failure", "time": "time limit", "cancelled": "cancelled"}


def jobs_document(folder: Path) -> dict[str, Any]:
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
    queue = _queue(folder, str(manifest["scheduler"]))
    rows = [_row(folder, job, queue) for job in manifest["jobs"]]
    return {
        "schema": "xpubuild.jobs/1",
        "folder": str(folder),
        "scheduler": manifest["scheduler"],
        "answered": queue is not None,
        "jobs": rows,
    }


def _queue(folder: Path, scheduler: str) -> Mapping[str, tuple[str, str]] | None:
    """Return name -> (id, state) of what is queued; None where nobody answers."""
    # Our own copy of the script: the folder may be a stranger's.
    words = ["bash", "-c", 'folder=$1; . "$2"; queued', "xpubuild", str(folder), str(script_of(scheduler))]
    answer = probe(words, env={**base_environment(), **_of_scheduler()}, deadline_s=_DEADLINE_S)
    if not answer.ok:
        return None
    rows = [line.split(None, 2) for line in answer.stdout.splitlines()]
    return {row[2]: (row[0], row[1].lower()) for row in rows if len(row) == 3}  # noqa: PLR2004


def _of_scheduler() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(_TELLS)}


def _row(folder: Path, job: Mapping[str, Any], queue: Mapping[str, tuple[str, str]] | None) -> dict[str, Any]:
    name = str(job["name"])
    ended = _text(folder / "ended" / name).split()
    submitted = _text(folder / "ids" / name).strip()
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
        "name": name, "kind": str(job["kind"]), "build": str(job["cell"]), "state": state,
        "id": found[0] if found else submitted or None,
        "exit_code": code if state in _ENDED.values() else None,
    }  # fmt: skip


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""

"""What became of the jobs of a folder: from what they wrote themselves and one question to the scheduler."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from xpubuild.engine.environment import base_environment
from xpubuild.engine.junit import Case, junit
from xpubuild.engine.process import probe
from xpubuild.errors import UsageError, XpuBuildError
from xpubuild.jobs.folder import read_manifest
from xpubuild.jobs.render import fixed_script
from xpubuild.untrusted import json_value, read_text
from xpubuild.verify.suite.metrics import direction, share

_DEADLINE_S = 20.0
#: Variables that lead a scheduler's programs to it.
_OF_SCHEDULER = ("SLURM_", "PBS_", "KRB5")
#: What a job wrote about its last attempt.
_ENDED = {
    "failed": "failed", "site": "site failure", "time": "time limit", "cancelled": "cancelled",
    "stuck": "stopped",
}  # fmt: skip
_NOT_RUN = "not run: its dependency failed"
_BAD = ("gone", *_ENDED.values())


class JobRow(TypedDict):
    """A job, and what is known of it."""

    name: str
    kind: Literal["fetch", "build", "verify", "report"]
    build: str
    """The build that it belongs to."""
    state: str
    """done, failed, site failure, time limit, stopped (three times at one object), cancelled, ended,
    'not run: its dependency failed', gone (it left no word), not submitted, unknown, or the scheduler's
    word: pending, running, ..."""
    id: str | None
    """The scheduler's number."""
    exit_code: int | None
    """Of the command that failed."""


class CellRow(TypedDict):
    """A build and a proof of it: a build on two drivers is two cells."""

    cell: str
    build: str
    """State of the build's job."""
    verdict: str
    """pass or fail, as verify says, or the state of its job."""
    failing: list[str]
    """Checks that failed."""
    passed: int
    """Checks that passed."""
    wheels: list[str]
    seconds: int
    """Of the last attempts of build and verify."""
    speed: float | None
    """The lowest share of a speed in accepted/CELL.json, an earlier result of this cell."""
    cause: str
    """Why it is not a pass, of the first job that failed."""
    log: str | None
    """Of that job."""


class JobsDocument(TypedDict):
    """The jobs of a folder: what they wrote themselves, and what the scheduler says."""

    schema: Literal["xpubuild.jobs/1"]
    """Name and version."""
    folder: str
    scheduler: Literal["slurm", "pbs"]
    answered: bool
    """Whether the scheduler answered."""
    cells: list[CellRow]
    jobs: list[JobRow]


def jobs_document(folder: Path) -> JobsDocument:
    """Return ``xpubuild.jobs/1``; if the scheduler does not answer, what no file shows is unknown.

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
    rows: dict[str, JobRow] = {}
    for job in manifest["jobs"]:
        rows[job["name"]] = _row(folder, job, queue, rows)
    return {
        "schema": "xpubuild.jobs/1",
        "folder": str(folder),
        "scheduler": manifest["scheduler"],
        "answered": queue is not None,
        "cells": [_cell(folder, job, rows) for job in manifest["jobs"] if job["kind"] == "verify"],
        "jobs": [*rows.values()],
    }


def junit_report(document: JobsDocument) -> bytes:
    """Return the cells as JUnit XML: a cell that was not verified to its end is an error or skipped."""
    cases = [
        Case(
            "cells", cell["cell"], status, status in ("fail", "error"), cell["cause"] or cell["verdict"],
            cell["seconds"], problem=f"{cell['cause']}\n{cell['log'] or ''}",
            properties={"build": cell["build"], "wheels": " ".join(cell["wheels"])},
        )
        for cell in document["cells"]
        for status in [_status(cell)]
    ]  # fmt: skip
    return junit(
        "xpubuild jobs", cases, {"folder": document["folder"]}, sum(case.duration_s for case in cases)
    )


def _status(cell: CellRow) -> str:
    if cell["verdict"] in ("pass", "fail"):
        return cell["verdict"]
    return "error" if cell["cause"] else "skip"


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


def _row(
    folder: Path, job: Mapping[str, Any], queue: Mapping[str, tuple[str, str]] | None,
    earlier: Mapping[str, JobRow],
) -> JobRow:  # fmt: skip
    name = job["name"]
    ended, submitted = _text(folder / "ended" / name).split(), _text(folder / "ids" / name).strip()
    found = (queue or {}).get(name)
    word, code = (ended[0], int(ended[1])) if len(ended) > 1 and ended[1].isdigit() else ("", None)
    if (folder / "done" / name).exists():
        state = "done"
    elif found is not None:
        state = found[1]
    elif word in _ENDED:
        state = _ENDED[word] if queue is not None or word in ("failed", "stuck") else "unknown"
    elif not submitted:
        state = "not submitted"
    elif queue is None:
        state = "unknown"
    elif job["kind"] == "report":
        state = "ended"
    else:
        over = [row["state"] in (*_BAD, _NOT_RUN) for row in earlier.values() if row["name"] in job["needs"]]
        state = _NOT_RUN if any(over) else "gone"
    return {
        "name": name, "kind": job["kind"], "build": job["cell"], "state": state,
        "id": found[0] if found else submitted or None,
        "exit_code": code if state in _ENDED.values() else None,
    }  # fmt: skip


def _cell(folder: Path, job: Mapping[str, Any], rows: Mapping[str, JobRow]) -> CellRow:
    name, verify = str(job.get("proof", job["cell"])), rows[job["name"]]
    build = next((row for row in rows.values() if row["name"] in job["needs"]), verify)
    fetches = [row for row in rows.values() if row["kind"] == "fetch" and build["state"] == _NOT_RUN]
    bad = next((row for row in (*fetches, build, verify) if row["state"] in _BAD), None)
    checks = _checks(folder / "results" / f"{verify['name']}.json")
    failing = [str(check.get("id")) for check in checks if check["status"] not in ("pass", "skip")]
    verdict = verify["state"]
    if checks and verdict in ("done", "failed"):
        verdict = "fail" if failing else "pass"
    wheels = _document(folder / "results" / f"{build['name']}.json").get("wheels") or ()
    return {
        "cell": name,
        "build": build["state"],
        "verdict": verdict,
        "failing": failing,
        "passed": sum(check["status"] == "pass" for check in checks),
        "wheels": [str(wheel.get("file")) for wheel in wheels],
        "seconds": sum(_ended_after(folder, row["name"]) for row in (build, verify)),
        "speed": _speed(checks, _checks(folder / "accepted" / f"{name}.json")),
        "cause": "" if bad is None else _cause(folder, bad, checks, failing),
        "log": None if bad is None else _log(folder, bad),
    }


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json_value(read_text(path))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _checks(path: Path) -> list[dict[str, Any]]:
    """Return the checks of a verify document that were run or skipped."""
    found = _document(path).get("checks")
    return [check for check in found if check.get("status")] if isinstance(found, list) else []


def _ended_after(folder: Path, name: str) -> int:
    """Return the seconds of a job's last attempt: its mark's last word."""
    words = (_text(folder / "done" / name) or _text(folder / "ended" / name)).split()
    return int(words[2]) if len(words) > 2 and words[2].isdigit() else 0  # noqa: PLR2004


def _speed(checks: Sequence[Mapping[str, Any]], accepted: Sequence[Mapping[str, Any]]) -> float | None:
    earlier = {check.get("id"): check.get("metrics", {}) for check in accepted}
    shares = [
        share(name, value, earlier[check["id"]][name])
        for check in checks
        if check.get("id") in earlier
        for name, value in check.get("metrics", {}).items()
        if direction(name) and name in earlier[check["id"]]
    ]
    return round(min(shares), 3) if shares else None


def _cause(folder: Path, row: JobRow, checks: Sequence[Mapping[str, Any]], failing: Sequence[str]) -> str:
    """Return why a job failed: its checks, what a stopped job was at, or the error that it printed."""
    if row["kind"] == "verify" and failing:
        return "; ".join(
            f"{check['id']}: {check.get('detail')}" for check in checks if check["id"] in failing
        )
    if row["state"] == _ENDED["stuck"]:
        return "three attempts ended at " + " ".join(_text(folder / "ended" / row["name"]).split()[3:])
    error = _document(folder / "results" / f"{row['name']}.json").get("error")
    if row["state"] in ("failed", "site failure") and isinstance(error, dict):
        found = XpuBuildError.from_json(error)
        return f"{found.what}: {found.likely_cause() or found.why}"
    return row["state"]


def _log(folder: Path, row: JobRow) -> str | None:
    """Return the job's newest log: Slurm's begin with the name, those of PBS with the number."""
    names = tuple(f"{word}." for word in (row["name"], row["id"]) if word)
    with contextlib.suppress(OSError):
        logs = [path for path in (folder / "logs").iterdir() if path.name.startswith(names)]
        return str(max(logs, key=lambda path: path.stat().st_mtime)) if logs else None
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""

"""``xpubuild plan --format slurm|pbs --json`` and ``xpubuild status --jobs --json``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


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

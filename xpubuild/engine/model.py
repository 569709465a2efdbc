"""Steps and plans: immutable, printable, hashable. Everything that is executed is in here first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

#: First word of a command that is xpubuild itself; the runner replaces it by its own interpreter, so that a
#: plan (and its fingerprints) does not depend on where xpubuild is installed.
XPUBUILD = "xpubuild"


@dataclass(frozen=True)
class Command:
    """One process.

    ``env`` is laid over the base environment of ``engine.environment``. ``alternatives`` are tried in order
    where ``argv`` ends with a status other than 0. ``portable`` are shell lines that do the same without
    xpubuild, for ``plan --format sh``; None means that ``argv`` itself is portable.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    alternatives: tuple[tuple[str, ...], ...] = ()
    portable: tuple[str, ...] | None = None
    deadline_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the command as the plan document shows it."""
        document: dict[str, Any] = {"argv": list(self.argv), "env": dict(self.env), "cwd": self.cwd}
        if self.alternatives:
            document["alternatives"] = [list(argv) for argv in self.alternatives]
        return document


class Proof(Protocol):
    """A post-condition: looks at what a step made, never at an exit status."""

    def describe(self) -> str:
        """Say what is proved, in words a user understands."""
        ...

    def key(self) -> dict[str, Any]:
        """Return what the proof depends on, for the step's fingerprint."""
        ...

    def check(self) -> dict[str, Any]:
        """Return evidence for the receipt, or raise an ``XpuBuildError`` that names what is wrong."""
        ...


@dataclass(frozen=True)
class Publish:
    """Move what ``stage`` holds into ``folder`` once the proofs held; earlier outputs of the step go away."""

    stage: str
    folder: str
    pattern: str = "*"


@dataclass(frozen=True)
class Step:
    """A unit of work: runs when its fingerprint is not in the journal, is done when its proofs held.

    ``relevant`` is hashed beside the commands: pins, hashes of input files, versions of the compilers used.
    ``witnesses`` are files whose change or loss after the fact makes the step run again.
    ``fresh`` are outputs that are removed before the step runs (they were made by it and hold nothing else).
    ``always_prove`` marks a proof that is cheap and guards the user's own edits: it runs on every install.
    """

    id: str
    title: str
    needs: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    proofs: tuple[Proof, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    witnesses: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    publish: Publish | None = None
    relevant: Mapping[str, Any] = field(default_factory=dict)
    memory_bytes: int = 0
    always_prove: bool = False


@dataclass(frozen=True)
class Plan:
    """What an install will do, in topological order, and everything a person or program asks about it."""

    recipe: str
    workspace: str
    lock_digest: str
    steps: tuple[Step, ...]
    fingerprints: Mapping[str, str]
    summary: Mapping[str, Any] = field(default_factory=dict)

    def step(self, identifier: str) -> Step:
        """Return a step by id; a missing one is a bug of the planner, hence KeyError."""
        for step in self.steps:
            if step.id == identifier:
                return step
        raise KeyError(identifier)

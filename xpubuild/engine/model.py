"""Steps and plans: immutable, printable, hashable. Everything that is executed is in here first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from xpubuild.documents import plain
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen

#: First word of a command that is xpubuild itself; the runner replaces it by its own interpreter, so that a
#: plan (and its fingerprints) does not depend on where xpubuild is installed.
XPUBUILD = "xpubuild"
_UPPER = re.compile(r"(?<=.)([A-Z])")


def closure(names: Iterable[str], follow: Callable[[str], Iterable[str]]) -> set[str]:
    """Return names and all that they lead to, directly or not."""
    found, waiting = set[str](), list(names)
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += follow(name)
    return found


@frozen
class Command:
    """One process.

    ``env`` is laid over the base environment of ``engine.environment``; ``path_prefix`` are folders put in
    front of its PATH (kept apart, so that a fingerprint does not change with the caller's PATH). ``tuning``
    is environment that changes how fast something is made and not what (MAX_JOBS), so no fingerprint has it.
    ``alternatives`` are tried in order where ``argv`` ends with a status other than 0. ``shortcut`` makes the
    same with less work: it runs first, and ``argv`` where it fails; no fingerprint has it. ``portable`` are
    shell lines that do the same without xpubuild, for ``plan --format sh``; None means that ``argv`` itself
    is portable. ``deadline_s`` is in seconds. An ``isolated`` command has no network but loopback, where the
    kernel allows that; no fingerprint has it.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    path_prefix: tuple[str, ...] = ()
    tuning: Mapping[str, str] = field(default_factory=dict)
    alternatives: tuple[tuple[str, ...], ...] = ()
    shortcut: tuple[str, ...] = ()
    portable: tuple[str, ...] | None = None
    deadline_s: float | None = None
    isolated: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the command as the plan document shows it."""
        optional = ("path_prefix", "alternatives", "shortcut", "isolated")
        document = {**self.key(), "env": {**self.env, **self.tuning}, "shortcut": list(self.shortcut)}
        document["isolated"] = self.isolated
        return {name: value for name, value in document.items() if value or name not in optional}

    def key(self) -> dict[str, Any]:
        """Return what a fingerprint hashes of the command."""
        hashed = ("argv", "env", "cwd", "path_prefix", "alternatives")
        return {name: plain(getattr(self, name)) for name in hashed}


class Proof(Protocol):
    """A check of a step's results; it never relies on an exit code."""

    def describe(self) -> str:
        """Return what is checked, in words a user understands."""

    def key(self) -> dict[str, Any] | None:
        """Return what the check depends on, for the step's fingerprint; None where that is in it already."""

    def check(self) -> dict[str, Any]:
        """Return evidence for the receipt, or raise an ``XpuBuildError`` that names what is wrong."""


class SimpleProof:
    """A proof that is named for its class, described by ``words`` and depends on its fields.

    ``places`` are fields that say where something is, and not what.
    """

    words = ""
    places: frozenset[str] = frozenset()

    def describe(self) -> str:
        """Return ``words`` with the fields that they name."""
        return self.words.format_map(vars(self))

    def key(self) -> dict[str, Any] | None:
        """Return the name and the fields, without those of ``places``."""
        name = _UPPER.sub(r"-\1", type(self).__name__.removesuffix("Proof")).lower()
        return {"proof": name, **{key: plain(it) for key, it in vars(self).items() if key not in self.places}}


@frozen
class Stop:
    """Continuing is pointless: the command is stopped and the user gets this error."""

    error: XpuBuildError


@frozen
class Caution:
    """A warning for the user while the command continues; ``lines`` are the tool's own.

    ``evidence`` goes into the receipt with the rest.
    """

    id: str
    text: str
    lines: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)


Verdict = Stop | Caution


class Watcher(Protocol):
    """Reads the log while the commands of one attempt at a step run; each attempt gets a new one.

    It does not change the results, so it is not part of a fingerprint. All calls come
    from one thread, and none may block for longer than a second.
    """

    def line(self, text: str, number: int) -> Sequence[Verdict]:
        """Take the line ``number`` (counted from 1) of the log."""

    def poll(self) -> Sequence[Verdict]:
        """Look at files; called at least every second while a command runs, and once when it has ended."""

    def explain(self, error: XpuBuildError) -> XpuBuildError:
        """Return the error to show for a command that failed, with what is known about the failure."""


class Keeper(Protocol):
    """Knows whether what a step makes is kept from an earlier run elsewhere, and keeps it where it is not.

    It does not change the results, so it is not part of a fingerprint.
    """

    def to_json(self) -> dict[str, Any]:
        """Return what the plan document says of it."""

    def describe(self) -> str:
        """Return the same in a few words, for the table of the plan."""

    def take(self, stage: Path) -> dict[str, Any] | None:
        """Put what is kept into ``stage``; return evidence of it, None where nothing is kept.

        Raises:
            XpuBuildError: what is kept cannot be used; the step's commands run instead. A disk that is full
                (``NoSpaceError``) or an interruption ends the step.
        """

    def refuse(self, why: str) -> None:
        """Learn that the result of ``take`` did not pass the step's proofs."""

    def built(self) -> dict[str, Any] | None:
        """Return evidence of what decides a result that was not taken; None where there is none."""

    def keep(
        self,
        files: Sequence[Path],
        evidence: Sequence[Mapping[str, Any]],
        commands: Sequence[Mapping[str, Any]],
    ) -> Sequence[str]:
        """Keep what the step published; return what the user should know, one line each.

        ``evidence`` is that of the step, ``commands`` what was run for it, as the journal has both.

        Raises:
            XpuBuildError: it is not kept. The step is done all the same.
        """


@frozen
class Publish:
    """Move the files of ``stage`` into ``folder`` after the checks passed; earlier outputs of the step are
    removed."""

    stage: str
    folder: str
    pattern: str = "*"


@frozen
class Step:
    """A unit of work: runs if its fingerprint is not in the journal, is done when its checks passed.

    ``relevant`` is hashed beside the commands: pins, hashes of input files, versions of the compilers used.
    ``witnesses`` are files whose change or loss after the fact makes the step run again; ``witness_globs``
    are (folder, pattern) pairs, for names that only exist once the step ran. ``outputs_stamp`` sums up sizes
    and times of outputs that are too many to be named, such as the files of an installed distribution.
    ``fresh`` are outputs that are removed before the step runs (they were made by it and hold nothing else).
    ``always_prove`` marks proofs that guard the user's own edits: they run on every install. With
    ``guard_stamp`` they need not where it is what it was before the same proofs passed; it is None where
    something can still change without showing in it.
    ``after`` are steps that must not run at the same time and come first where they run at all; what they
    make is not used, so no fingerprint has them.
    ``tools`` are steps that must be done as well, but whose results change nothing in those of this one, such
    as a compile cache; no fingerprint has them either.
    ``stale`` are files in trees that a step keeps, which are removed where its last attempt had other inputs.
    ``explain`` turns the last lines of a failed command into the error a user should read, or None.
    ``watch`` makes the watcher of one attempt. With a ``keeper`` the commands only run where it has nothing.
    """

    id: str
    title: str
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    proofs: tuple[Proof, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    witnesses: tuple[str, ...] = ()
    witness_globs: tuple[tuple[str, str], ...] = ()
    outputs_stamp: Callable[[], int] | None = None
    guard_stamp: Callable[[], int | None] | None = None
    fresh: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    publish: Publish | None = None
    relevant: Mapping[str, Any] = field(default_factory=dict)
    memory_bytes: int = 0
    always_prove: bool = False
    explain: Callable[[Sequence[str]], XpuBuildError | None] | None = None
    watch: Callable[[], Watcher] | None = None
    keeper: Keeper | None = None

    def makes(self) -> list[str]:
        """Return the paths that the step makes, as the planner declared them."""
        return [*self.outputs, *self.fresh, *([self.publish.stage] if self.publish else [])]


@frozen
class Plan:
    """What an install will do, in topological order, and everything a person or program asks about it.

    ``files`` are texts (path -> content) that commands read and that are written before the first step.
    """

    recipe: str
    workspace: str
    lock_digest: str
    steps: tuple[Step, ...]
    fingerprints: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)

    def step(self, identifier: str) -> Step:
        """Return a step by id; a missing one is a bug of the planner, hence KeyError."""
        return {step.id: step for step in self.steps}[identifier]

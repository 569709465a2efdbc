"""Runs the sides of a row in turn, so that whatever else the machine does falls on both."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Words = Sequence[str]


@dataclass(frozen=True)
class Side:
    """One of the things that are compared: commands that run one after the other, in a new folder each time.

    ``{new}`` in a word is that folder. ``facts`` reads more about a run from it, once it has ended.
    ``statuses`` are the exit statuses that count as success: doctor has its findings in it.
    """

    name: str
    commands: Sequence[Words]
    facts: Callable[[Path], Mapping[str, float]] | None = None
    statuses: Sequence[int] = (0,)
    #: Variables beside those of the caller; they may hold logins.
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Row:
    """What is compared; the first side is xpubuild.

    ``slow`` ones run fewer times, and only if asked for; ``named`` ones only if asked for by name.
    ``prepare`` makes what the sides read, which does not count.
    """

    name: str
    sides: Sequence[Side]
    goal: str = ""
    slow: bool = False
    named: bool = False
    prepare: Callable[[], object] | None = None


@dataclass
class Samples:
    """The runs of one side: seconds on the clock and of the processors."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    facts: list[Mapping[str, float]] = field(default_factory=list)


class FailedError(Exception):
    """A command of a side failed; the message has its last words."""


def environment() -> dict[str, str]:
    """Return the environment of a user, in which Python keeps what it has compiled."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("XPUBUILD_")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return env


def run(side: Side, folder: Path, into: Samples) -> None:
    """Run a side once in a folder of its own.

    Raises:
        FailedError: a command failed.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    for words in side.commands:
        argv = [word.replace("{new}", str(folder)) for word in words]
        done = subprocess.run(
            argv, env={**environment(), **side.env}, cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode not in side.statuses:
            said = (done.stderr + done.stdout).strip().splitlines()[-5:]
            raise FailedError(
                f"{side.name}: {' '.join(argv[:6])} ended with {done.returncode}: {' / '.join(said)}"
            )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    into.wall_s.append(wall)
    into.cpu_s.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    if side.facts is not None:
        into.facts.append(side.facts(folder))


def measure(row: Row, rounds: int, place: Path) -> dict[str, Any]:
    """Run every side of a row ``rounds`` times, in turn, after one that does not count for quick ones."""
    samples = {side.name: Samples() for side in row.sides}
    errors: dict[str, str] = {}
    if row.prepare is not None:
        try:
            row.prepare()
        except (subprocess.CalledProcessError, OSError) as error:
            errors = {side.name: str(error) for side in row.sides}
    for number in range(rounds + (not row.slow)):
        for side in row.sides:
            if side.name in errors:
                continue
            into = samples[side.name] if row.slow or number else Samples()
            with tempfile.TemporaryDirectory(dir=place) as folder:
                try:
                    run(side, Path(folder), into)
                except (FailedError, OSError) as error:
                    errors[side.name] = str(error)
    ours = samples[row.sides[0].name]
    sides = {name: _side(one, ours) for name, one in samples.items() if one.wall_s}
    return {"row": row.name, "goal": row.goal, "rounds": rounds, "sides": sides, "failed": errors}


def _side(one: Samples, ours: Samples) -> dict[str, Any]:
    found: dict[str, Any] = {"wall_s": spread(one.wall_s), "cpu_s": spread(one.cpu_s)}
    if one is not ours:
        # Of each round by itself: what slowed one of the two down most likely slowed the other down, too.
        for name in ("wall_s", "cpu_s"):
            pairs = zip(getattr(ours, name), getattr(one, name), strict=False)
            found[f"ours_to_this_{name.removesuffix('_s')}"] = spread([a / b for a, b in pairs if b > 0])
    names = sorted({name for facts in one.facts for name in facts})
    found["facts"] = {name: spread([facts[name] for facts in one.facts if name in facts]) for name in names}
    return found


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median, smallest and largest of measured values."""
    kept = {"median": statistics.median(values), "low": min(values), "high": max(values)} if values else {}
    return {name: round(value, 4) for name, value in kept.items()}

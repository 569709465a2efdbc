"""Simulates the schedule of an XPU release with Triton, torchvision, torchaudio and ops.

Steps and their order are those of the planner; what each takes is in docs/evidence/schedule/durations.yaml.
Builds share the cores as the plan divides the jobs, or from one budget, as with a jobserver. The result is
compared with the least that is possible: the longest chain of steps if each had all cores to itself, or the
CPU time of all builds on all cores, whichever is longer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
DURATIONS = ROOT / "docs/evidence/schedule/durations.yaml"
_NOTHING = 1e-6
#: How builds that run together share the cores. ``torch first``: others get what it leaves, as with nice.
SHARES = ("divided", "one budget", "torch first")
#: Steps that run at the same time: engine.runner.run_plan's width.
WIDTH = 4


@dataclass(frozen=True)
class Task:
    """A step: seconds that no core shortens, CPU seconds that cores divide, and its jobs."""

    name: str
    before: frozenset[str]
    fixed_s: float
    cpu_s: float
    jobs: int


def tasks_of(steps: Any, durations: Mapping[str, Mapping[str, Any]], cores: int) -> dict[str, Task]:
    """Return the tasks of a plan."""
    known = {step.id for step in steps}
    found = {}
    for step in steps:
        item = durations[step.id]
        jobs = [int(c.tuning["MAX_JOBS"]) for c in step.commands if "MAX_JOBS" in c.tuning]
        before = frozenset((*step.needs, *step.tools, *step.after)) & known
        cpu_s = item.get("cpu_s", 0.0) + item.get("whole_machine_s", 0.0) * cores
        found[step.id] = Task(step.id, before, item.get("s", 0.0), cpu_s, max(jobs, default=0))
    return found


def least(tasks: Mapping[str, Task], cores: int) -> float:
    """Return the seconds of the longest chain with all cores for each task, or of all CPU time if longer."""
    ends: dict[str, float] = {}

    def end(name: str) -> float:
        if name not in ends:
            task = tasks[name]
            ends[name] = max(map(end, task.before), default=0.0) + task.fixed_s + task.cpu_s / cores
        return ends[name]

    builds = [task for task in tasks.values() if task.cpu_s]
    first = min(max(map(end, task.before), default=0.0) for task in builds)
    last = min(end("verify") - ends[task.name] for task in builds)
    return max(end("verify"), first + sum(task.cpu_s for task in builds) / cores + last)


def rates(tasks: Mapping[str, Task], building: list[str], cores: int, jobs: str) -> dict[str, float]:
    """Return how many cores each build has."""
    if jobs == "divided":
        return {name: min(tasks[name].jobs, cores) for name in building}
    if jobs == "torch first" and "torch.wheel" in building:
        return {name: cores if name == "torch.wheel" else 0.0 for name in building}
    return {name: cores / len(building) for name in building}


def simulate(tasks: Mapping[str, Task], cores: int, jobs: str) -> tuple[float, dict[str, float]]:
    """Return the seconds until all is done, and when each step ends."""
    now, ends, left = 0.0, {}, {name: [task.cpu_s, task.fixed_s] for name, task in tasks.items()}
    running: list[str] = []
    while len(ends) < len(tasks):
        ready = [n for n, t in tasks.items() if n not in ends and n not in running and t.before <= set(ends)]
        running += ready[: WIDTH - len(running)]
        building = [name for name in running if left[name][0] > 0]
        rate = {**dict.fromkeys(running, 1.0), **rates(tasks, building, cores, jobs)}
        part = {name: 0 if name in building else 1 for name in running}
        passed = min(left[name][part[name]] / rate[name] for name in running if rate[name])
        now += passed
        for name in running:
            remains = left[name][part[name]] - passed * rate[name]
            left[name][part[name]] = remains if remains > _NOTHING else 0.0
        for name in [name for name in running if not any(left[name])]:
            running.remove(name)
            ends[name] = now
    return now, ends


def plan(cores: int, *, triton_beside: bool) -> Any:
    """Return the steps of 2.8 for XPU; with ``triton_beside`` Triton's build does not wait for torch."""
    from support import plan_files  # noqa: PLC0415 - of the tests

    if triton_beside:
        real = plan_files.recipe_of

        def changed(name: str) -> Any:
            loaded = real(name)
            parts = dict(loaded.recipe.components)
            parts["triton"] = parts["triton"].model_copy(update={"needs": []})
            recipe = loaded.recipe.model_copy(update={"components": parts})
            return loaded.model_copy(update={"recipe": recipe})

        plan_files.recipe_of = changed
    try:
        made = plan_files.plan_for(
            "2.8", oneapi="2025.1", with_=("triton", "vision", "audio"), facts={"jobs": cores}
        )
    finally:
        if triton_beside:
            plan_files.recipe_of = real
    return made.steps


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, nargs="*", default=[16, 48])
    parser.add_argument("--ends", action="store_true", help="also when each step ends")
    arguments = parser.parse_args()
    durations = yaml.safe_load(DURATIONS.read_text("utf-8"))
    sys.stdout.write(
        "| cores | Triton | jobs | whole | least | above it |\n| --- | --- | --- | --- | --- | --- |\n"
    )
    for cores in arguments.cores:
        for beside in (False, True):
            tasks = tasks_of(plan(cores, triton_beside=beside), durations, cores)
            shortest = least(tasks, cores)
            for jobs in SHARES:
                whole, ends = simulate(tasks, cores, jobs)
                sys.stdout.write(
                    f"| {cores} | {'beside' if beside else 'after'} torch | {jobs} | {whole / 60:.1f} min |"
                    f" {shortest / 60:.1f} min |"
                    f" {100 * (whole / shortest - 1):.0f} % |\n"
                )
                if arguments.ends:
                    sys.stdout.writelines(f"    {at:7.0f} s {name}\n" for name, at in ends.items())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Divides the compile jobs of the machine among builds that run in parallel. Pure.

The number of jobs is chosen for one build: as many compilers as cores and memory allow. Builds of the same
rank (the same number of builds must come before them) are put into lanes. Lanes run in parallel, each with
its share of the jobs; the builds of a lane run one after the other. So there are never more compilers running
than planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xpubuild.engine.model import Command, Step
from xpubuild.install.tuning import JOBS_VARIABLES, JOBSERVER_VARIABLE, VARIABLE, jobs_environment


def jobs_of(step: Step) -> int | None:
    """Return the number of jobs that a step is told; None where it compiles nothing."""
    return jobs_in({name: value for command in step.commands for name, value in command.tuning.items()})


def jobs_in(tuning: Mapping[str, str]) -> int | None:
    """Return the number of jobs in such an environment; None where there is none."""
    found = next((tuning[name] for name in JOBS_VARIABLES if name in tuning), "")
    return int(found) if found.isascii() and found.isdecimal() and int(found) > 0 else None


def share_jobs(steps: Sequence[Step], jobs: int) -> tuple[Step, ...]:
    """Return the steps with ``jobs`` divided among the builds that run in parallel.

    A build is a step with a command that is told a number of jobs, which it never gets more of; its
    ``memory_bytes`` is for ``jobs``. Those whose compilers wait have one budget and keep their number, as do
    those that follow a jobserver.
    """
    ranks = _ranks(steps)
    shared: dict[str, Step] = {}
    for rank in sorted(set(ranks.values())):
        group = [step for step in steps if ranks.get(step.id) == rank]
        earlier = tuple(name for name, other in ranks.items() if other == rank - 1)
        # Compilers that wait for memory do not know of those beside them that cannot.
        lanes = 1 if len({_waits(step) for step in group}) > 1 else min(len(group), jobs)
        for index, step in enumerate(group):
            lane = index % lanes
            before = (*earlier, *(group[index - lanes].id,)) if index >= lanes else earlier
            # What does not divide evenly goes to the first lanes.
            part = jobs // lanes + (lane < jobs % lanes)
            shared[step.id] = _with_jobs(step, part, jobs, before)
    return tuple(shared.get(step.id, step) for step in steps)


def _is_build(step: Step) -> bool:
    told = (*JOBS_VARIABLES, JOBSERVER_VARIABLE)
    return any(name in command.tuning for command in step.commands for name in told)


def _waits(step: Step) -> bool:
    return any(VARIABLE in command.tuning for command in step.commands)


def _ranks(steps: Sequence[Step]) -> Mapping[str, int]:
    """Return for each build how many builds must come before it, in the longest chain of them."""
    by_id = {step.id: step for step in steps}
    below: dict[str, int] = {}

    def depth(name: str) -> int:
        """Count the builds up to and with this step."""
        if name not in below:
            step = by_id[name]
            before = [depth(other) for other in (*step.needs, *step.after) if other in by_id]
            below[name] = max(before, default=0) + _is_build(step)
        return below[name]

    return {step.id: depth(step.id) for step in steps if _is_build(step)}


def _with_jobs(step: Step, part: int, jobs: int, before: tuple[str, ...]) -> Step:
    commands = tuple(_told(command, part) if command.tuning else command for command in step.commands)
    after = tuple(dict.fromkeys((*step.after, *(name for name in before if name not in step.needs))))
    return replace(step, commands=commands, memory_bytes=step.memory_bytes * part // jobs, after=after)


def _told(command: Command, part: int) -> Command:
    if VARIABLE in command.tuning or JOBSERVER_VARIABLE in command.tuning:
        return command
    most = min([part, *(int(command.tuning[name]) for name in JOBS_VARIABLES if name in command.tuning)])
    return replace(command, tuning={**command.tuning, **jobs_environment(most)})

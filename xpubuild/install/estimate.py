"""Guesses what each step of a plan will take: from earlier builds, else from the recipe. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from xpubuild.engine.estimate import UNKNOWN, Estimate
from xpubuild.engine.model import Plan, Step
from xpubuild.frozen import frozen
from xpubuild.install.build_jobs import jobs_of
from xpubuild.install.target import Target
from xpubuild.recipe.facts import fact_of

_MB = 1_000_000
#: A wheel from a store is copied, hashed and audited: that of ops on a busy machine.
_TAKEN_S = 3.0
#: Steps, or their part of a component, that download nothing.
_LOCAL = ("env", "wheel", "portable", "install", "verify")


@frozen
class Earlier:
    """A step as it was done before, in some workspace of this user."""

    step: str
    recipe: str
    target: str
    """Of the whole plan; empty where nothing tells."""
    fingerprint: str
    """Empty where the step was done again since."""
    workspace: str
    seconds: float
    cpu_s: float
    jobs: int | None
    """Compile jobs that it was given; None for a step that compiles nothing, or where nothing tells."""
    download_bytes: int | None = None
    disk_bytes: int | None = None

    def with_jobs(self, jobs: int, cores: int | None = None) -> float:
        """Return the seconds with another number of jobs: what the processors did is divided among them.

        Jobs beyond the ``cores`` of this machine, where it was done too, change nothing.
        """
        now = side_by_side(jobs, cores)
        before = side_by_side(self.jobs, cores) if self.jobs else now
        compiling = self.cpu_s / before
        return max(0.0, self.seconds - compiling) + min(self.seconds, compiling) * before / now


def side_by_side(jobs: int, cores: int | None) -> int:
    """Return how many of so many jobs run at a time; all where the cores are not known."""
    return jobs if cores is None else min(jobs, cores)


@frozen
class Known:
    """What was found for estimates: earlier steps, newest first, and components whose commit is cached."""

    earlier: Sequence[Earlier] = ()
    cached: Collection[str] = ()


def estimates(target: Target, plan: Plan, todo: Collection[str], known: Known) -> dict[str, Estimate]:
    """Return step -> estimate for the steps that are to do, in the order of the plan."""
    return {step.id: _estimate(target, plan, step, known) for step in plan.steps if step.id in todo}


def _estimate(target: Target, plan: Plan, step: Step, known: Known) -> Estimate:
    jobs = jobs_of(step)
    found = _nearest(target, plan, step, known.earlier)
    cores = target.cores
    guess = _of_recipe(target, step, jobs or 1)
    if found is not None:
        guess = _of_earlier(found, jobs, cores, guess)
    kept = step.keeper.to_json() if step.keeper is not None else {}
    if kept.get("answer") == "kept":
        guess = replace(guess, seconds=_TAKEN_S, source=f"taken from the store {kept['store']}")
    component, _, part = step.id.partition(".")
    if part in _LOCAL or step.id in _LOCAL or (part == "source" and component in known.cached):
        guess = replace(guess, download_bytes=0)
    return guess


def _nearest(target: Target, plan: Plan, step: Step, earlier: Sequence[Earlier]) -> Earlier | None:
    """Return the same step, the same of this recipe, or of another one; of builds the one that did most.

    A build that finds part of its work done, in its folder or in a compile cache, is quicker than the next.
    """
    mine = [item for item in earlier if item.step == step.id and item.target in ("", target.device)]
    for same in (
        [item for item in mine if item.fingerprint == plan.fingerprints[step.id]],
        [item for item in mine if item.recipe == plan.recipe],
        mine,
    ):
        if same:
            return max(same, key=lambda item: item.cpu_s) if jobs_of(step) else same[0]
    return None


def _of_earlier(found: Earlier, jobs: int | None, cores: int | None, otherwise: Estimate) -> Estimate:
    told = f"earlier build in {found.workspace}"
    if jobs and found.jobs and jobs != found.jobs:
        told += f" with {found.jobs} jobs, scaled to {_crowd(jobs, cores) or jobs}"
    return Estimate(
        seconds=found.with_jobs(jobs, cores) if jobs else found.seconds,
        download_bytes=otherwise.download_bytes if found.download_bytes is None else found.download_bytes,
        disk_bytes=otherwise.disk_bytes if found.disk_bytes is None else found.disk_bytes,
        source=told,
    )


def _of_recipe(target: Target, step: Step, jobs: int) -> Estimate:
    cost = target.recipe.costs.get(step.id)
    if cost is None:
        return UNKNOWN
    work = cost.core_minutes.get(target.device)
    cores = target.cores
    divided = None if work is None else work / side_by_side(jobs, cores)
    minutes = [value for value in (cost.minutes, divided) if value is not None]
    crowd = _crowd(jobs, cores) if work is not None else ""
    value = f"core_minutes.{target.device}" if work is not None else "minutes"
    fact = fact_of(f"costs.{step.id}.{value}", target.recipe.facts)
    return Estimate(
        seconds=60 * sum(minutes) if minutes else None,
        download_bytes=_bytes(cost.download_mb),
        disk_bytes=_bytes(cost.disk_mb),
        source=(f"recipe: {fact.source}" if fact is not None else "recipe")
        + (f", with {crowd}" if crowd else ""),
    )


def _crowd(jobs: int, cores: int | None) -> str:
    """Return the words for more jobs than run at a time, "" where all of them do."""
    return "" if cores is None or jobs <= cores else f"{jobs} jobs on {cores} core{'s' * (cores > 1)}"


def _bytes(megabytes: float | None) -> int | None:
    return None if megabytes is None else round(megabytes * _MB)

"""What the steps of a plan will take: what they took the last time, else what the recipe says."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from xpubuild.engine.events import Sink
from xpubuild.engine.forecast import Estimate, Forecaster, edge_key
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Step
from xpubuild.engine.runner import needed_for
from xpubuild.engine.state import StepState
from xpubuild.errors import XpuBuildError
from xpubuild.install.build_jobs import jobs_of
from xpubuild.install.options import default_workspace
from xpubuild.install.target import Prepared, Target
from xpubuild.recipe.facts import fact_of
from xpubuild.workspace import ninja_log
from xpubuild.workspace.layout import Layout, workspaces_in

#: Workspaces that are read, the ones that were used last.
_MOST = 20
#: A wheel from a store is copied, hashed and audited: that of ops on a busy machine.
_TAKEN_S = 3.0


def estimates(prepared: Prepared, todo: Collection[str]) -> dict[str, Estimate]:
    """Return step -> estimate for the steps that are to do, in the order of the plan."""
    last: dict[str, tuple[float, str]] = {}
    for root in reversed(_roots(prepared.target) if todo else []):
        last |= {step: (seconds, root.name) for step, seconds in last_time(root).items()}
    found = {}
    for step in (step for step in prepared.plan.steps if step.id in todo):
        found[step.id] = _by_recipe(prepared.target, step)
        if step.id in last:
            seconds, name = last[step.id]
            found[step.id] = replace(found[step.id], seconds=seconds, source=f"last time, in {name}")
        kept = step.keeper.to_json() if step.keeper is not None else {}
        if kept.get("answer") == "kept":
            found[step.id] = Estimate(_TAKEN_S, source=f"taken from the store {kept['store']}")
    return found


def last_time(root: Path) -> dict[str, float]:
    """Return the seconds that each step took in a workspace until its commands ended well the last time.

    A build goes on where the run before it ended, so the runs that failed before count with it. Nothing is
    known where the journal cannot be read.
    """
    found: dict[str, float] = {}
    with contextlib.suppress(XpuBuildError), Journal(Layout(root).journal, read_only=True) as journal:
        before: dict[str, float] = {}
        of_run = itemgetter("step", "run")
        for (step, _), items in groupby(sorted(journal.commands(), key=of_run), of_run):
            commands = list(items)
            before[step] = before.get(step, 0.0) + sum(item["duration_s"] for item in commands)
            if commands[-1]["returncode"] == 0:
                found[step] = before.pop(step)
    return found


def _roots(target: Target) -> list[Path]:
    """Return the workspaces of this user, that of the target first, then those that were used last."""
    own = target.layout.root
    every = [root for root in workspaces_in(default_workspace("x").parent) if root != own]
    return [own, *sorted(every, key=lambda root: Layout(root).journal.stat().st_mtime, reverse=True)][:_MOST]


def _by_recipe(target: Target, step: Step) -> Estimate:
    cost = target.recipe.costs.get(step.id)
    if cost is None:
        return Estimate()
    work, jobs = cost.core_minutes.get(target.device), min(jobs_of(step) or 1, target.cores or 1 << 20)
    if work is not None and target.device == "xpu":
        file = (cost.sycl_core_minutes or 0) + (cost.target_core_minutes or 0) * len(target.arch)
        work += (cost.sycl_files or 0) * file
    minutes = [value for value in (cost.minutes, work and work / jobs) if value is not None]
    key = f"core_minutes.{target.device}" if work is not None else "minutes"
    fact = fact_of(f"costs.{step.id}.{key}", target.recipe.facts)
    download, disk = (mb if mb is None else round(mb * 1e6) for mb in (cost.download_mb, cost.disk_mb))
    seconds = 60 * sum(minutes) if minutes else None
    return Estimate(seconds, download, disk, f"recipe: {fact.source}" if fact else "recipe")


def edge_weights(target: Target, step: str) -> Mapping[str, float]:
    """Return the seconds of each edge that ninja logged of a component's build the last time."""
    name, layouts = step.partition(".")[0], map(Layout, _roots(target))
    folders = ((layout.build / name, layout.src / name / "build") for layout in layouts)
    for path in (path for places in folders for path in ninja_log.find(places)):
        with contextlib.suppress(OSError):
            runs = ninja_log.read(path)
            return {edge_key(edge.output): edge.duration_s for _, edges in runs for edge in edges}
    return {}


def forecasting(prepared: Prepared, states: Mapping[str, StepState], sink: Sink, until: str | None) -> Sink:
    """Return a sink that also says what is left; the sink itself where nothing is to do."""
    steps = needed_for(prepared.plan, until)
    todo = [step.id for step in steps if not states[step.id].done]
    if not todo:
        return sink
    weights = {step.id: edge_weights(prepared.target, step.id) for step in steps if jobs_of(step)}
    return Forecaster(sink, steps, estimates(prepared, todo), weights)

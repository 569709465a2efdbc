"""Collects what estimates rest on: what steps took in this user's workspaces, and what is cached."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild.engine.edges import History
from xpubuild.engine.journal import Journal, StepRecord
from xpubuild.errors import RecipeError, XpuBuildError
from xpubuild.install.build_jobs import jobs_in
from xpubuild.install.estimate import Earlier, Known
from xpubuild.install.options import default_workspace
from xpubuild.install.source_steps import pin_of
from xpubuild.install.target import Target
from xpubuild.supply.git.fetching import PINS
from xpubuild.supply.git.urls import mirror_name
from xpubuild.workspace import ninja_log
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.overview import workspaces_in

#: Workspaces that are read, the ones that were used last.
_MOST = 20


def known_of(target: Target) -> Known:
    """Return what is known: journals that cannot be read are left out, nothing is written."""
    earlier = [item for root in _roots(target) for item in steps_of(root)]
    return Known(earlier, frozenset(_cached(target)))


def histories_of(target: Target, steps: Collection[str]) -> dict[str, History]:
    """Return step -> the edges of the largest build of its component that ninja logged, for ``steps``."""
    found: dict[str, History] = {}
    for step in steps:
        component, _, part = step.partition(".")
        if part in ("wheel", "install"):
            logged = [_edges(Layout(root), component) for root in _roots(target)]
            largest = max(logged, key=len, default=[])
            if largest:
                found[step] = History.of(largest)
    return found


def _edges(layout: Layout, component: str) -> list[tuple[str, float, float]]:
    """Return (output, start, end) of what ninja logged for a component; runs follow each other."""
    edges: list[tuple[str, float, float]] = []
    for path in ninja_log.find(iter((layout.build / component, layout.src / component / "build"))):
        with contextlib.suppress(OSError):
            for run in ninja_log.read(path):
                after = max((end for _, _, end in edges), default=0.0)
                edges += [
                    (edge.output, after + edge.start_s, after + edge.start_s + edge.duration_s)
                    for edge in run.edges
                ]
    return edges


def _roots(target: Target) -> list[Path]:
    own = target.layout.root
    others = [root for root in workspaces_in(default_workspace("x").parent) if root != own]
    return sorted([own, *others], key=_used, reverse=True)[:_MOST]


def _used(root: Path) -> float:
    with contextlib.suppress(OSError):
        return Layout(root).journal.stat().st_mtime
    return 0.0


def steps_of(root: Path) -> list[Earlier]:
    """Return the steps that were done in a workspace; none where its journal cannot be read."""
    with contextlib.suppress(XpuBuildError), Journal(Layout(root).journal, read_only=True) as journal:
        records = {record.step: record for record in journal.records()}
        return list(_done(root, journal, records))
    return []


def _done(root: Path, journal: Journal, records: Mapping[str, StepRecord]) -> Iterator[Earlier]:
    """Yield each step as often as its commands ended well."""
    recipes = {run["id"]: run["recipe"] for run in journal.runs()}
    amounts, target = journal.amounts(), _target(root)
    newest = {}
    for attempts in _attempts(journal.commands()):
        step, run = attempts[-1]["step"], attempts[-1]["run"]
        amount, jobs = amounts.get((run, step)), None
        if amount is not None:
            jobs = jobs_in(amount.tuning)
        # A build goes on where the attempt before it ended; everything else begins anew.
        counted = attempts if jobs else [item for item in attempts if item["run"] == run]
        newest[step] = Earlier(
            step=step,
            recipe=recipes.get(run, ""),
            target=target,
            fingerprint="",
            workspace=root.name,
            seconds=sum(item["duration_s"] for item in counted),
            cpu_s=sum(item["user_s"] + item["system_s"] for item in counted),
            jobs=jobs,
            download_bytes=amount.downloaded_bytes if amount is not None else None,
            disk_bytes=amount.disk_bytes if amount is not None else None,
        )
        yield newest[step]
    for step, item in newest.items():
        record = records.get(step)
        if record is not None and record.status == "done":
            yield replace(item, fingerprint=record.fingerprint)


def _attempts(commands: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the commands of a step up to the end of a run in which the last of them ended well."""
    by_step: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for command in commands:
        by_step[command["step"]].append(command)
    for every in by_step.values():
        attempts: list[Mapping[str, Any]] = []
        for command, following in zip(every, [*every[1:], None], strict=True):
            attempts.append(command)
            ends = following is None or following["run"] != command["run"]
            if ends and command["returncode"] == 0:
                yield attempts
                attempts = []


def _target(root: Path) -> str:
    """Return the target of the last plan of a workspace, "" where that cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(Layout(root).plan.read_text("utf-8"))["summary"]["target"])
    return ""


def _cached(target: Target) -> Iterator[str]:
    """Yield the components whose commit is in the user's bare repositories, or comes with xpubuild."""
    for name in target.components:
        component = target.component(name)
        if component.kind != "source":
            continue
        with contextlib.suppress(RecipeError, OSError):
            pin = pin_of(target, name)
            folder = target.cache / "git" / mirror_name(pin.url, len(pin.commit))
            embedded = component.source is not None and component.source.embedded is not None
            if embedded or _has_pin(folder, f"{PINS}/{pin.commit}"):
                yield name


def _has_pin(folder: Path, reference: str) -> bool:
    packed = folder / "packed-refs"
    return (folder / reference).is_file() or (packed.is_file() and reference in packed.read_text("utf-8"))

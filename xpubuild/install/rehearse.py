"""``rehearse`` as a library: sources, environment and the configure step for real, then a report."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from xpubuild import __version__
from xpubuild.artifacts import cmake_build
from xpubuild.artifacts.configure import ConfiguredProof, configured_folder
from xpubuild.documents import plain
from xpubuild.engine.events import Sink
from xpubuild.engine.fingerprint import digest, fingerprints
from xpubuild.engine.journal import StepRecord
from xpubuild.engine.model import Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import needed_for, run_plan
from xpubuild.engine.state import warnings_in
from xpubuild.errors import InterruptedByUserError, NoXpuError, UsageError, XpuBuildError
from xpubuild.errors_json import Error
from xpubuild.install.build_steps import TORCH, build_environment, bytecode, configure_command, source_folder
from xpubuild.install.install import entered
from xpubuild.install.source_steps import built_tree_proof
from xpubuild.install.target import Prepared, Target
from xpubuild.supply.git.edits import add_made

#: Sources, environment and what CMake generates; the recipe's own number is that of a whole build.
_DISK_GIB = 8.0
_REHEARSED = "CMakeCache.rehearsed.txt"


def planned(prepared: Prepared) -> Prepared:
    """Return what a rehearsal runs instead: the steps before the build of PyTorch, and its configuration.

    Raises:
        UsageError: the plan does not build PyTorch from source.
    """
    plan, target = prepared.plan, prepared.target
    name = _torch(target)
    wheel = plan.step(f"{name}.wheel")
    before = tuple(step for step in needed_for(plan, wheel.id) if step.id != wheel.id)
    ids, folders = {step.id for step in before}, _folders(target, name)
    check, _ = wheel.commands
    configure = Step(
        id=f"{name}.configure",
        title=f"configure {target.component(name).dist}, without compiling",
        needs=wheel.needs,
        after=tuple(step for step in wheel.after if step in ids),
        commands=(check, configure_command(target, name, folders[-1])),
        proofs=(built_tree_proof(target, name), ConfiguredProof(source_folder(target, name), folders)),
        inputs=wheel.inputs, outputs=folders[-1:], fresh=(folders[-1], bytecode(target, name)),
        relevant={**wheel.relevant, "rehearsal": True}, watch=wheel.watch,
    )  # fmt: skip
    every = (*before, configure)
    own = digest({"rehearsal": plan.lock_digest})
    part = replace(plan, steps=every, fingerprints=fingerprints(every), lock_digest=own)
    return Prepared(target, part, disk_gib=min(prepared.disk_gib, _DISK_GIB))


def _torch(target: Target) -> str:
    sources = (name for name in target.components if target.component(name).kind == "source")
    if found := next((name for name in sources if target.component(name).dist == TORCH), None):
        return found
    what = f"recipe '{target.recipe.name}' does not build PyTorch from source"
    why = "a rehearsal configures PyTorch's own build; what is prebuilt has none"
    raise UsageError(what, why=why, fix="pass the recipe of a release", commands=("xpubuild recipes list",))


def _folders(target: Target, name: str) -> tuple[str, str]:
    """Return where the tree's own CMake may write: its own folder, else that which the caller names."""
    return f"{source_folder(target, name)}/build", str(target.layout.build / "rehearsal" / name)


def rehearse(prepared: Prepared, *, sink: Sink, cancel: Cancel) -> dict[str, Any]:
    """Run a plan up to the configuration of PyTorch, and return the report.

    Raises:
        NoXpuError: the configuration lost XPU; ``document`` of the error is the report.
        XpuBuildError: what else went wrong, with the report where CMake ran.
    """
    part = planned(prepared)
    step, own = part.plan.steps[-1].id, Path(_folders(part.target, _torch(part.target))[0])
    with entered(part, "rehearse", sink=sink, cancel=cancel) as (lock, journal, _):
        # A configuration is what this machine is now: an earlier one says nothing about it.
        journal.forget([step], removed=False)
        outcome = run_plan(part.plan, journal, sink=sink, cancel=cancel, lock_fd=lock)
        error = outcome.errors[0] if outcome.errors else None
        record = journal.record(step)
        report = make_report(part, record, error)
        # PyTorch's setup.py does not run CMake where there is a cache (tools/setup_helpers/cmake.py): the
        # next build in its own folder has to configure again, with its own options.
        with contextlib.suppress(FileNotFoundError):
            (own / "CMakeCache.txt").replace(own / _REHEARSED)
            add_made(own.parent, own / _REHEARSED)
    if error is not None:
        if record is not None and not isinstance(error, InterruptedByUserError):
            error.document = report
        raise error
    return report


def make_report(prepared: Prepared, record: StepRecord | None, error: XpuBuildError | None) -> dict[str, Any]:
    """Return the ``xpubuild.rehearsal/1`` document; ``error`` is what ended the rehearsal early."""
    target, name, step = prepared.target, _torch(prepared.target), prepared.plan.steps[-1].id
    log = target.layout.logs / f"{step}.log"
    build, lines, warnings = None, list[str](), list[dict[str, Any]]()
    if record is not None:
        build = configured_folder(source_folder(target, name), _folders(target, name))
        lines = log.read_text("utf-8", "replace").split("\n") if log.is_file() else []
        warnings = warnings_in(record.evidence)
    cache = cmake_build.read_cache(build) if build is not None else {}
    groups = cmake_build.read_sycl_groups(build) if build is not None else ()
    messages, environment = cmake_build.read_messages(lines), build_environment(target, name)
    verdict = "warnings" if warnings else "ok"
    if error is not None:
        verdict = "no-xpu" if isinstance(error, NoXpuError) else "failed"
    return {
        "schema": "xpubuild.rehearsal/1", "xpubuild": __version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "recipe": prepared.plan.recipe,
        "release": target.recipe.release, "target": target.device, "workspace": prepared.plan.workspace,
        "component": name, "verdict": verdict, "error": error.to_json() if error is not None else None,
        "warnings": warnings, "log": str(log),
        "build": str(build) if build is not None else None,
        "duration_s": round(record.ended - record.started, 3) if record and record.ended else None,
        "switches": plain(cmake_build.read_switches(environment, cache, messages)),
        "arch_requested": list(target.arch), "sycl_groups": plain(groups),
        "sycl_files": sum(len(group.sources) for group in groups),
    }  # fmt: skip


class RehearsalWarning(TypedDict):
    """A warning of the XPU gate: the build would go on, without something that was requested."""

    id: str
    """The rule; docs/reference/gate.md lists them."""
    text: str
    lines: list[str]
    """Upstream's own."""


class RehearsalDocument(TypedDict):
    """What a build would make, as its configure step says."""

    schema: Literal["xpubuild.rehearsal/1"]
    """Name and version."""
    xpubuild: str
    created: str
    recipe: str
    release: str | None
    target: str
    workspace: str
    component: str
    """The component that was configured."""
    verdict: Literal["ok", "warnings", "no-xpu", "failed"]
    """no-xpu: the XPU gate stopped it (exit code 53). failed: something else did."""
    error: Error | None
    warnings: list[RehearsalWarning]
    log: str
    build: str | None
    """The folder with what CMake wrote; null if it wrote no build files."""
    duration_s: float | None
    """Of the configure step; null if it did not run to its end."""
    switches: list[cmake_build.SwitchFound]
    """By name; empty if nothing was configured."""
    arch_requested: list[str]
    """The AOT targets of the recipe and of --arch."""
    sycl_files: int
    sycl_groups: list[cmake_build.SyclGroup]
    """Largest first."""

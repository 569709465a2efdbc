"""Adds to a plan what the stores know: between planning, which looks at nothing, and the first step."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import platformdirs
from packaging.utils import canonicalize_name

from xpubuild import __version__
from xpubuild.engine.environment import base_environment
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Keeper, Plan, Step
from xpubuild.engine.state import from_journal
from xpubuild.errors import AuditError, XpuBuildError
from xpubuild.install.context import Context
from xpubuild.install.prepare import Prepared
from xpubuild.supply.store.contents import Contents
from xpubuild.supply.store.identity import build_inputs, identity
from xpubuild.supply.store.keeping import NotKept, WheelKeeper, look_up
from xpubuild.supply.store.machine import Toolchain, machine_inputs
from xpubuild.supply.store.record import Record
from xpubuild.workspace.layout import Layout

#: A store that does not answer within this time is not waited for.
_SECONDS = 10.0
_WHEEL = ".wheel"
_COMMAND = ("argv", "started", "duration_s", "user_s", "system_s", "max_rss_bytes", "peak_tree_bytes")


def with_stores(prepared: Prepared, done: Collection[str] | None = None) -> Prepared:
    """Return a plan whose builds know the stores; what is done already is not asked for.

    ``done`` are the steps that are; None asks the journal of the workspace.
    """
    plan, stores = prepared.plan, prepared.stores
    builds = [step for step in plan.steps if step.id.endswith(_WHEEL)]
    ready = _done(plan, builds) if done is None else done
    wanted = [step for step in builds if step.id not in ready]
    if not wanted or not stores.every:
        return prepared
    keepers = _Looking(prepared).keepers(wanted)
    steps = tuple(
        replace(step, keeper=keepers[step.id]) if step.id in keepers else step for step in plan.steps
    )
    return replace(prepared, plan=replace(plan, steps=steps))


def unanswered(plan: Plan) -> tuple[str, ...]:
    """Return which stores gave the builds of a plan no answer, and why, one line each."""
    keepers = (step.keeper for step in plan.steps)
    told = (line for keeper in keepers if isinstance(keeper, WheelKeeper) for line in keeper.unanswered())
    return tuple(dict.fromkeys(told))


def _done(plan: Plan, steps: Sequence[Step]) -> set[str]:
    """Return which of some steps are done, as the journal says."""
    path = Layout(Path(plan.workspace)).journal
    try:
        if path.is_file():
            with Journal(path, read_only=True) as journal:
                return {
                    step.id for step in steps if from_journal(step, plan.fingerprints[step.id], journal).done
                }
    except XpuBuildError:
        pass  # what is wrong with it is told by the command that opens it for work
    return set()


class _Looking:
    """Looks one plan up."""

    def __init__(self, prepared: Prepared) -> None:
        self._plan = prepared.plan
        self._context = prepared.context
        self._stores = prepared.stores
        self._host = prepared.host
        self._contents = Contents(platformdirs.user_cache_path("xpubuild") / "contents.json")

    def keepers(self, steps: Sequence[Step]) -> dict[str, Keeper]:
        why = self._never()
        if why:
            return {step.id: NotKept(why) for step in steps}
        try:
            machine = self._machine()
        except XpuBuildError as error:
            return {step.id: NotKept(error.what) for step in steps}
        return {step.id: self._keeper(step, machine) for step in steps}

    def _never(self) -> str:
        """Return why no wheel of this plan has an identity."""
        context = self._context
        if context.request.editable or context.request.allow_dirty:
            return "a build with edits is not kept (--editable, --allow-dirty)"
        for name in context.choice.components:
            component = context.component(name)
            if component.kind == "wheel" and component.requirements is None:
                return f"the recipe has no hash of the wheel of {name}"
        return ""

    def _machine(self) -> dict[str, Any]:
        return machine_inputs(_toolchain(self._context), self._contents)

    def _keeper(self, step: Step, machine: Mapping[str, Any]) -> Keeper:
        dist = canonicalize_name(self._context.component(step.id.removesuffix(_WHEEL)).dist)
        places = places_of(self._context)
        inputs = build_inputs(self._plan, step.id, dist, machine, places)
        key = identity(inputs)

        def record(
            wheel: Path, evidence: Sequence[Mapping[str, Any]], commands: Sequence[Mapping[str, Any]]
        ) -> Record:
            return self._record(wheel, evidence, commands, Record(key, dist, "", "", 0, inputs, {}, {}))

        return WheelKeeper(
            identity=key,
            inputs=inputs,
            found=look_up(self._stores.every, dist, key, inputs, _SECONDS),
            writable=self._stores.writable,
            again=lambda: build_inputs(self._plan, step.id, dist, self._machine(), places),
            record=record,
        )

    def _record(
        self,
        wheel: Path,
        evidence: Sequence[Mapping[str, Any]],
        commands: Sequence[Mapping[str, Any]],
        empty: Record,
    ) -> Record:
        audit = next((dict(item["audit"]) for item in evidence if isinstance(item.get("audit"), dict)), {})
        require_movable(audit, self._plan.workspace)
        return replace(
            empty,
            file=wheel.name,
            sha256=file_sha256(wheel),
            size=wheel.stat().st_size,
            audit={**audit, "wheel": wheel.name},
            commands=tuple({name: item.get(name) for name in _COMMAND} for item in commands),
            built={
                "xpubuild": __version__,
                "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
                "recipe": self._plan.recipe,
                "lock_digest": self._plan.lock_digest,
                "host": {name: self._host.get(name) for name in ("os", "cpu")},
            },
        )


def _toolchain(context: Context) -> Toolchain:
    facts, base = context.facts, base_environment()
    environment = dict(base)
    if facts.oneapi is not None:
        environment.update(facts.oneapi.env)
        environment["PATH"] = os.pathsep.join((*facts.oneapi.path_prefix, base["PATH"]))
    components = facts.oneapi.components if facts.oneapi is not None else ()
    return Toolchain(
        cc=facts.compilers.cc,
        cxx=facts.compilers.cxx,
        environment=environment,
        search_path=base["PATH"],
        # That of conda is one of the packages which the lock names.
        python=facts.python if facts.conda_lock is None else "",
        oneapi={str(item["name"]): Path(str(item["path"])) for item in components},
        ocloc=facts.oneapi is not None,
    )


def places_of(context: Context) -> dict[str, str]:
    """Return the paths that differ between users and machines, and the words that stand for them."""
    facts, root = context.facts, str(context.layout.root)
    return {
        quote(root): "{workspace}",
        facts.python: "{python}",
        facts.compilers.cc: "{cc}",
        facts.compilers.cxx: "{cxx}",
        str(facts.cache): "{cache}",
        root: "{workspace}",
    }


def require_movable(audit: Mapping[str, Any], workspace: str) -> None:
    """Refuse a wheel that finds its libraries in the folder it was built in.

    Raises:
        AuditError: naming the library.
    """
    for item in audit.get("objects", ()):
        for entry in item["rpath"]:
            if f"{entry}/".startswith(f"{workspace}/"):
                raise AuditError(
                    f"{item['path']} looks for libraries in this workspace",
                    why=f"its RPATH has {entry}",
                    fix="set the RPATH of the build to $ORIGIN",
                )

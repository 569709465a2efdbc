"""A step that builds a small wheel, and what the stores know of it: the engine's part, without a recipe."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from integration.test_components_held import wheel
from support.engine import make_plan, shell

from xpubuild.artifacts.audit_report import AuditPolicy
from xpubuild.artifacts.step_proofs import WheelProof
from xpubuild.engine.model import Plan, Publish, Step
from xpubuild.supply.depot.keeping import Store, WheelKeeper, look_up
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.location import Trust
from xpubuild.supply.depot.record import Record, identity
from xpubuild.supply.git.edits import BARE

DIST = "small"
FILE = "small-1.0-py3-none-any.whl"
INPUTS: Mapping[str, Any] = {"distribution": DIST, "machine": {"compilers": {"cc1plus": "a" * 64}}}


class Bare:
    """Stands for the proof of the tree that a wheel was built of."""

    def describe(self) -> str:
        """Return what is checked."""
        return "the tree is bare"

    def key(self) -> None:
        """Return nothing."""

    def check(self) -> dict[str, Any]:
        """Return the evidence."""
        return {BARE: True}


def a_store(folder: Path) -> FolderStore:
    """Return a user's own store."""
    return FolderStore(folder, Trust(frozenset(), frozenset({0, os.geteuid()})), own=True)


def record_of(path: Path, inputs: Mapping[str, Any] = INPUTS) -> Record:
    """Return the record of a wheel."""
    data = path.read_bytes()
    return Record(
        identity(inputs), DIST, path.name, hashlib.sha256(data).hexdigest(), len(data), inputs,
        {"recipe": "test"}, {"status": "pass"},
    )  # fmt: skip


def keeper(
    stores: Sequence[Store], inputs: Mapping[str, Any] = INPUTS, after: Mapping[str, Any] | None = None
) -> WheelKeeper:
    """Return what a step asks of stores; ``after`` is what decides its wheel once it was built."""
    key = identity(inputs)
    return WheelKeeper(
        identity=key,
        found=look_up(stores, DIST, key, 60.0),
        writable=[store for store in stores if isinstance(store, FolderStore)],
        again=lambda: identity(after or inputs),
        record=lambda path, evidence, commands: record_of(path, inputs),
    )


def plan_of(workspace: Path, kept: WheelKeeper, body: str = "") -> Plan:
    """Return a plan that builds a wheel; each time it does, a line goes into the file ``built``."""
    workspace.mkdir(parents=True, exist_ok=True)
    ready = workspace / "ready"
    ready.mkdir(exist_ok=True)
    made = wheel(ready, DIST, "1.0", "small.py", body=body)
    stage = workspace / "wheels" / ".stage"
    step = Step(
        id="small.wheel",
        title="build",
        commands=(shell(f"cp '{made}' '{stage}'; echo built >> '{workspace}/built'"),),
        proofs=(WheelProof(str(stage), "*.whl", AuditPolicy()), Bare()),
        publish=Publish(str(stage), str(workspace / "wheels"), "*.whl"),
        fresh=(str(stage),),
        keeper=kept,
    )
    return make_plan(workspace, step)

"""The receipt: what was built, from which inputs, with which commands, and the results of all checks."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from xpubuild import __version__
from xpubuild.artifacts.audit_report import AuditedWheel
from xpubuild.documents import plain
from xpubuild.engine.journal import Journal, RanCommand, ran_command
from xpubuild.engine.state import warnings_in
from xpubuild.frozen import frozen
from xpubuild.install.options import Resolved
from xpubuild.install.target import Prepared
from xpubuild.machine.host_report import HostReport
from xpubuild.supply.caching import StepCounts, rows
from xpubuild.supply.depot.record import taken_from
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.shared import published

_COUNTS = {"passed": "pass", "failed": "fail", "skipped": "skip", "crashed": "crash", "timed_out": "timeout"}


def make_receipt(prepared: Prepared, journal: Journal) -> dict[str, Any]:
    """Return the ``xpubuild.receipt/1`` document for the present state of a workspace."""
    target, plan, layout = prepared.target, prepared.plan, prepared.target.layout
    ids, oneapi = {step.id for step in plan.steps}, target.oneapi
    # A record of another recipe or pin in the same workspace proves nothing about this plan.
    records = {
        item.step: item for item in journal.records() if plan.fingerprints.get(item.step) == item.fingerprint
    }
    ran = [records[step.id] for step in plan.steps if step.id in records]
    done = [record for record in ran if record.status == "done"]
    return {
        "schema": "xpubuild.receipt/1", "xpubuild": __version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "status": "complete" if len(done) == len(ids) else "partial", "recipe": plan.recipe,
        "lock_digest": plan.lock_digest, "summary": dict(plan.summary), "host": dict(target.host),
        "oneapi": [dict(component) for component in oneapi.components] if oneapi else [],
        "activation": {"oneapi": dict(oneapi.difference) if oneapi else None},
        "resolved": plain(target.resolved), "workspace": plan.workspace, "python": str(layout.python),
        "published": [str(path) for path in published(layout.root)], "logs": str(layout.logs),
        "steps": [
            {"id": step.id, "title": step.title, "status": record.status if record else "to-do",
             "fingerprint": plan.fingerprints[step.id], "evidence": record.evidence if record else [],
             "store": taken_from(record.evidence) if record else None}
            for step, record in ((step, records.get(step.id)) for step in plan.steps)
        ],
        "commands": [ran_command(item) for item in journal.commands() if item["step"] in ids],
        "wheels": [
            {**item["audit"], "file": file, "path": str(layout.wheels / file), "wheel": file}
            for record in done
            for item in record.evidence
            if isinstance(item.get("audit"), dict)
            for file in [Path(str(item["audit"]["wheel"])).name]
        ],
        "warnings": [{"step": one.step, **warning} for one in done for warning in warnings_in(one.evidence)],
        "compile_cache": rows(ran, layout.build),
        "prebuilt": [
            {"step": record.step, "name": item["metadata"]["name"], "version": item["metadata"]["version"],
             "sha256": sha256_of(item)}
            for record in done
            for item in layout.pip_installed(record.step)
        ],
        "verify": _verify(layout) if any(record.step == "verify" for record in done) else None,
    }  # fmt: skip


def sha256_of(item: Mapping[str, Any]) -> str | None:
    """Return the hash of a package in pip's report."""
    found = item.get("download_info", {}).get("archive_info", {}).get("hashes", {}).get("sha256")
    return None if found is None else str(found)


def _verify(layout: Layout) -> dict[str, Any] | None:
    try:
        document = json.loads(layout.verify_report.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    counts = Counter(check["status"] for check in document["checks"])
    checks = [{key: check[key] for key in ("id", "status", "duration_s")} for check in document["checks"]]
    return {
        "status": document["status"], "torch": document.get("torch", {}),
        "device": document.get("device", {}), "report": str(layout.verify_report), "checks": checks,
        **{name: counts[status] for name, status in _COUNTS.items()},
    }  # fmt: skip


class ReceiptStep(TypedDict):
    """One step and the results of its checks."""

    id: str
    title: str
    status: Literal["done", "failed", "running", "to-do"]
    fingerprint: str
    store: NotRequired[str | None]
    """The store that its wheel was taken from; null where it was built here."""
    evidence: list[dict[str, Any]]
    """One object per check."""


@frozen
class ReceiptWheel(AuditedWheel):
    """A wheel that was built, where it is, and its audit."""

    file: str
    path: str


class Prebuilt(TypedDict):
    """A package that pip installed ready-made."""

    step: str
    name: str
    version: str
    sha256: str | None
    """Hash of the archive, as pip reports it."""


class OneapiComponent(TypedDict):
    """A component of oneAPI that was built with."""

    name: str
    version: str
    path: str


class ReceiptVerifyCheck(TypedDict):
    """One check; the report of verify has the rest."""

    id: str
    status: Literal["pass", "fail", "skip", "crash", "timeout"]
    duration_s: float


class ReceiptVerify(TypedDict):
    """Summary of the last verify."""

    status: Literal["pass", "fail"]
    torch: dict[str, Any]
    device: dict[str, Any]
    passed: int
    failed: int
    skipped: int
    crashed: int
    timed_out: int
    report: str
    checks: list[ReceiptVerifyCheck]


class Activation(TypedDict):
    """What a shell needs to work in the workspace, apart from the Python environment."""

    oneapi: dict[str, Any] | None
    """What oneAPI's scripts change; null without oneAPI."""


class ReceiptWarning(TypedDict):
    """A feature that a build lost, or a library from another place, without a failure."""

    step: str
    id: str
    """Name of the rule, as docs/reference/gate.md lists it."""
    text: str
    lines: list[str]
    """The tool's own lines."""


class Libtorch(TypedDict):
    """The archive of --libtorch, and the output of the program that was built against it."""

    archive: str
    sha256: str
    bytes: int
    xpu: bool
    """Whether it has the backend for Intel GPUs."""


class ReceiptWheelDir(TypedDict):
    """What --wheel-dir was filled with."""

    folder: str
    wheels: list[str]
    """Names of the wheels in it: those that were built, and all that they need."""
    not_copied: list[str]
    """Packages whose wheels could not be had; their hashes are in requirements.txt."""
    command: str
    """Installs all of it in another environment of the same Python."""


class ReceiptDocument(TypedDict):
    """What was built, from which inputs, with which commands, and the results of all checks."""

    schema: Literal["xpubuild.receipt/1"]
    """Name and version."""
    xpubuild: str
    """Version of xpubuild."""
    created: str
    """Local time with offset, such as 2026-01-31T12:00:00+0100."""
    status: Literal["complete", "partial"]
    recipe: str
    lock_digest: str
    summary: dict[str, Any]
    host: HostReport
    oneapi: list[OneapiComponent]
    """Empty where the build used none."""
    resolved: NotRequired[dict[str, Resolved]]
    """By component; empty where the recipe pins every commit."""
    workspace: str
    python: str
    logs: str
    published: NotRequired[list[str]]
    """The folders of --wheel-dir and the modulefiles by which others use what was built here."""
    steps: list[ReceiptStep]
    commands: list[RanCommand]
    wheels: list[ReceiptWheel]
    """Built here."""
    compile_cache: NotRequired[list[StepCounts]]
    """What compile caches hit in the last attempt of each step; empty without a cache."""
    warnings: NotRequired[list[ReceiptWarning]]
    """Optional features that finished steps lack."""
    wheel_dir: NotRequired[ReceiptWheelDir | None]
    """Printed only, with --wheel-dir; receipt.json does not have it."""
    libtorch: NotRequired[Libtorch | None]
    """Printed only, with --libtorch."""
    modulefile: NotRequired[str | None]
    """Printed only, with --module-dir: the modulefile that was written."""
    prebuilt: list[Prebuilt]
    """Installed ready-made, each at its pinned hash."""
    verify: ReceiptVerify | None
    """Null where verify did not run or did not pass."""
    activation: Activation
    ran: list[str]
    """Steps that ran in the last install."""
    up_to_date: list[str]
    """Steps that had nothing to do in the last install."""

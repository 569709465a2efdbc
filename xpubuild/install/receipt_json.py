"""``receipt.json`` in a workspace, and ``xpubuild install --json``."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from xpubuild.artifacts.audit_json import AuditedWheel
from xpubuild.install.options import Resolved
from xpubuild.machine.host_report import HostReport
from xpubuild.supply.caching import StepCounts


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


class ReceiptCommand(TypedDict):
    """One process that was run, with its cost."""

    step: str
    argv: list[str]
    started: float
    """Seconds since the epoch."""
    duration_s: float
    user_s: float
    system_s: float
    max_rss_bytes: int
    """Of its largest process."""
    peak_bytes: int
    """Of the whole process tree at one moment."""
    returncode: int
    log: str


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


class TreePin(TypedDict):
    """What a file of a checked-out tree says about a repository that the build clones while configuring."""

    component: str
    file: str
    url: str
    commit: NotRequired[str | None]
    ref: NotRequired[str | None]


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
    pins: NotRequired[list[TreePin]]
    """Read in the trees that were checked out."""
    workspace: str
    python: str
    logs: str
    steps: list[ReceiptStep]
    commands: list[ReceiptCommand]
    wheels: list[ReceiptWheel]
    """Built here."""
    compile_cache: NotRequired[list[StepCounts]]
    """What compile caches hit in the last attempt of each step; empty without a cache."""
    warnings: NotRequired[list[ReceiptWarning]]
    """Optional features that finished steps lack."""
    wheel_dir: NotRequired[ReceiptWheelDir | None]
    """Printed only, with --wheel-dir; receipt.json does not have it."""
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

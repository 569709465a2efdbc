"""``xpubuild plan|status|env|check|clean --json``."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from xpubuild.engine.forecast import Estimate, Total
from xpubuild.errors_json import Error
from xpubuild.machine.envdiff import EnvDiff
from xpubuild.supply.caching import StepCounts
from xpubuild.workspace.accounted import Damage


class Run(TypedDict):
    """One install in the workspace."""

    id: int
    started: float
    """Seconds since the epoch."""
    ended: float | None
    """Null if it still runs or was killed."""
    status: Literal["ok", "failed", "cancelled"] | None
    recipe: str
    argv: list[str]
    version: str
    """Version of xpubuild."""


class StatusStep(TypedDict):
    """What the journal knows of a step."""

    id: str
    status: Literal["running", "done", "failed"]
    fingerprint: str
    started: float
    duration_s: float | None
    """Null if the step runs or was killed."""
    detail: str
    store: NotRequired[str | None]
    """The store that its wheel was taken from; null where it was built here."""
    evidence: list[dict[str, Any]]
    published: list[str]
    """Files that the step put in place."""


class StatusDocument(TypedDict):
    """The journal of a workspace."""

    schema: Literal["xpubuild.status/1"]
    """Name and version."""
    workspace: str
    locked_by: dict[str, Any] | None
    """pid, host, command, since of the process that uses it now."""
    runs: list[Run]
    """Oldest first."""
    steps: list[StatusStep]
    """In the order they were last started."""
    compile_cache: NotRequired[list[StepCounts]]
    """What compile caches hit in the last attempt of each step, also of one that failed or runs."""


class EnvDocument(TypedDict):
    """What activates a workspace."""

    schema: Literal["xpubuild.env/1"]
    """Name and version."""
    workspace: str
    env: dict[str, str | None]
    """Variables to set; null means: remove."""
    changes: EnvDiff
    """The same without the caller's values, for module systems."""


class Checked(TypedDict):
    """How much was hashed."""

    packages: int
    """Installed distributions."""
    files: int
    """Files that their RECORDs list."""
    bytes: int
    """Size of these files and of the wheels."""
    wheels: int
    """Wheels that were built here."""
    sources: int
    """Checkouts; their repositories were checked too."""


class CheckDocument(TypedDict):
    """What is damaged in a workspace, and what was repaired."""

    schema: Literal["xpubuild.check/1"]
    """Name and version."""
    status: Literal["ok", "damaged"]
    """After the repair, with --repair."""
    workspace: str
    checked: Checked
    damaged: list[Damage]
    """Installed, built or kept files that are not what they were."""
    repaired: list[Damage]
    """What was removed and recreated."""
    unowned: list[str]
    """Files that no installed package has, and wheels that were not built here."""
    edited: list[str]
    """Files in checkouts that were changed after the checkout; they are not damage."""


class KeptPath(TypedDict):
    """A path that clean leaves alone."""

    path: str
    why: str


class CleanDocument(TypedDict):
    """What clean removed, or would remove."""

    schema: Literal["xpubuild.clean/1"]
    """Name and version."""
    workspace: str
    """With --caches, the folder that they are in."""
    dry_run: bool
    removed: list[str]
    steps: list[str]
    kept: list[KeptPath]
    freed_bytes: int
    """0 with --dry-run."""
    cache: NotRequired[str]
    """The folder that keeps sources, packages and wheels for other builds; clean leaves it."""
    cache_bytes: NotRequired[int]


class WorkspaceRow(TypedDict):
    """One workspace; null is unknown."""

    name: str
    path: str
    recipe: str | None
    torch: str | None
    """The version that is installed."""
    state: str
    """complete, partial, failed, interrupted, in use, or unknown."""
    size_bytes: int
    """On the disk; a file with several names counts once."""
    wheels_bytes: int
    """The part of it that is wheels."""
    last_used: float | None
    """When the last install ended, in seconds since the epoch."""
    verify: str | None
    """Result of the last verify."""
    verified: float | None
    """When that was, in seconds since the epoch."""


class CacheRow(TypedDict):
    """A folder of the user's cache."""

    name: str
    path: str
    size_bytes: int


class OverviewDocument(TypedDict):
    """Every workspace below the default folder, the active one, and the caches."""

    schema: Literal["xpubuild.overview/1"]
    """Name and version."""
    folder: str
    workspaces: list[WorkspaceRow]
    caches: list[CacheRow]


class PlanCommand(TypedDict):
    """One process. An argv that begins with ``xpubuild`` is run by the xpubuild that applies the plan."""

    argv: list[str]
    env: dict[str, str]
    """Added to the base environment, which is built from an allow-list."""
    cwd: str | None
    """Working folder; null is the folder xpubuild runs in."""
    path_prefix: NotRequired[list[str]]
    """Folders put in front of PATH."""
    alternatives: NotRequired[list[list[str]]]
    """Tried in order if argv fails."""
    shortcut: NotRequired[list[str]]
    """Run before argv: it makes the same with less work, and argv is run where it fails."""
    isolated: NotRequired[bool]
    """It has no network but loopback, where the kernel allows that."""


class PlanStore(TypedDict):
    """What the stores of built wheels know of a step that builds one."""

    answer: Literal["kept", "absent", "unknown"]
    """kept: it is taken from there; unknown: a store did not answer or is not used."""
    identity: NotRequired[str | None]
    """Build identity: sha256 of everything that decides the wheel, paths left out."""
    store: NotRequired[str | None]
    wheel: NotRequired[str | None]
    unknown: NotRequired[dict[str, str]]
    """Stores that gave no answer, with the reason."""
    differs: NotRequired[str]
    """Why a kept wheel of these tools is not taken; empty where there is none."""


class PlanStep(TypedDict):
    """One step of the plan."""

    id: str
    title: str
    needs: list[str]
    """Ids of the steps that must be done before this one."""
    after: NotRequired[list[str]]
    """Ids of steps that come first where they run, and whose results are not used."""
    commands: list[PlanCommand]
    proves: list[str]
    """Post-conditions that are checked after the commands, in words."""
    inputs: list[str]
    outputs: list[str]
    fingerprint: str
    """sha256 that changes with whatever changes the result."""
    memory_bytes: int
    """What the step may need at once; 0 where it is little."""
    state: Literal["done", "to-do"]
    """Whether the step would run now."""
    reason: str
    """Why it would run; empty where it would not."""
    estimate: NotRequired[Estimate | None]
    """Of a step that would run now."""
    store: NotRequired[PlanStore | None]
    """Null for a step that builds no wheel, and for one that is done."""


class PlanDocument(TypedDict):
    """What install would do, step by step."""

    schema: Literal["xpubuild.plan/1"]
    """Name and version."""
    recipe: str
    workspace: str
    lock_digest: str
    """sha256 of everything that decides what is built, paths left out."""
    summary: dict[str, Any]
    """What was chosen, for people; keys may change."""
    steps: list[PlanStep]
    """In an order in which every step follows what it needs."""
    estimate: NotRequired[Total | None]
    """Absent where nothing would run."""
    obstacles: NotRequired[list[Error]]
    """What would stop an install before its first step: too little space, a file that nobody has."""


class TestCase(TypedDict):
    """One of upstream's tests, or a model in one mode."""

    id: str
    """The file below the source tree, and what follows it in pytest's node id."""
    outcome: Literal["passed", "failed", "skipped", "crashed", "timed out"]
    seconds: float
    detail: str
    """The message of a failure, the reason of a skip."""


class TestAccepted(TypedDict):
    """The accepted run that this one is compared with."""

    when: float
    """When it ended, in seconds since the epoch."""
    torch: str
    device: str
    bad: list[str]
    """Tests that are known to fail; those of earlier accepted runs too, if they did not run in this one."""


class TestDocument(TypedDict):
    """What upstream's tests found."""

    schema: Literal["xpubuild.test/1"]
    """Name and version."""
    status: Literal["pass", "fail"]
    """`fail`: there are new failures, or nothing has run."""
    source: str
    python: str
    torch: str
    device: str
    """Name of the device."""
    lanes: int
    """How many devices, or tiles of one, tests ran on side by side."""
    when: float
    duration_s: float
    summary: dict[str, int]
    """How many tests ended in each outcome."""
    new: list[str]
    """Tests that are bad and were not in the accepted run."""
    known: list[str]
    """Tests that are bad and were in the accepted run."""
    fixed: list[str]
    """Tests that passed and were bad in the accepted run."""
    accepted: TestAccepted | None
    logs: str
    """Folder with the output of pytest, a file for each file of tests."""
    cases: list[TestCase]

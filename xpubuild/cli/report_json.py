"""``xpubuild status --html - --json``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError
from typing_extensions import NotRequired, TypedDict

from xpubuild.install.receipt import OneapiComponent, ReceiptDocument, ReceiptWarning, ReceiptWheel
from xpubuild.machine.host_report import HostReport
from xpubuild.supply.caching import StepCounts
from xpubuild.verify.verify_json import VerifyDocument, VerifyOperatorsDocument
from xpubuild.workspace.ninja_log import NinjaBuild
from xpubuild.workspace.report import ReportCommand, ReportStep, StepExplanation, WorkspaceStatus
from xpubuild.workspace.status import PlanDocument, Run


class ReportDocument(TypedDict):
    """Everything that a workspace has recorded about its builds, finished or not."""

    schema: Literal["xpubuild.report/1"]
    """Name and version."""
    xpubuild: str
    """Version of xpubuild that made the report."""
    created: float
    """Seconds since the epoch."""
    workspace: str
    recipe: str
    status: WorkspaceStatus
    """`partial`: steps are left to do, and none failed."""
    lock_digest: str
    """Of the last plan; empty where it cannot be read."""
    summary: dict[str, Any]
    """What was chosen, for people; keys may change."""
    runs: list[Run]
    """Oldest first."""
    steps: list[ReportStep]
    """Those of the last plan, in its order."""
    commands: list[ReportCommand]
    """Of every attempt, oldest first."""
    builds: list[NinjaBuild]
    """Runs of ninja that left a record, in order of time."""
    compile_cache: NotRequired[list[StepCounts]]
    """What compile caches hit in the last attempt of each step, also of one that failed or runs."""
    host: HostReport | None
    """The machine at the last install; null before one ended."""
    oneapi: list[OneapiComponent]
    """Empty where the build used none."""
    wheels: list[ReceiptWheel]
    """Built here."""
    warnings: list[ReceiptWarning]
    """Optional features that finished steps lack."""
    verify: VerifyDocument | None
    """The last verify of an install; null where there is none."""
    operators: VerifyOperatorsDocument | None
    """The operator database, where `verify --suite operators` ran in the workspace."""
    explanations: list[StepExplanation]
    """Of the steps that failed."""
    missing: list[str]
    """What is not recorded, or could not be read."""


#: What a report reads in a workspace, where others may have written.
_READ = {
    "plan": PlanDocument,
    "receipt": ReceiptDocument,
    "verify": VerifyDocument,
    "verify-operators": VerifyOperatorsDocument,
}


def unfit(name: str, document: Any) -> str:
    """Return why something read from a file is no document of that name, "" where it is one."""
    try:
        TypeAdapter(_READ[name]).validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""

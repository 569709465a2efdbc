"""What a verification leaves: files, and the error it ends with."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xpubuild.engine.files import write_atomic
from xpubuild.errors import VerifyError
from xpubuild.verify.junit import write_junit
from xpubuild.verify.model import CheckInfo, VerifyReport
from xpubuild.verify.target import DEFAULT_DEVICE

_MOST_NAMED = 5


def checks_document(checks: Sequence[CheckInfo]) -> dict[str, Any]:
    """Return the ``xpubuild.verify-checks/1`` document: all checks in the order they run."""
    return {"schema": "xpubuild.verify-checks/1", "checks": [asdict(check) for check in checks]}


def write_reports(report: VerifyReport, *, json_file: Path | None, junit_file: Path | None) -> None:
    """Write the reports that were asked for; a crash while writing leaves no half file."""
    if json_file is not None:
        write_atomic(json_file, (json.dumps(report.to_json(), indent=1) + "\n").encode())
    if junit_file is not None:
        write_junit(report, junit_file)


def failure(report: VerifyReport, target: Sequence[str] = ()) -> VerifyError | None:
    """Return the error a failed verification ends with, None for one that passed.

    ``target`` are the words of the command line that named what was verified; by default the interpreter.
    """
    bad = [check for check in report.checks if check.bad]
    if not bad:
        return None
    named = "; ".join(f"{check.id} ({check.status}): {check.detail}" for check in bad[:_MOST_NAMED])
    more = f"; and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
    return VerifyError(
        f"verify found {len(bad)} of {len(report.checks)} checks failing",
        why=named + more,
        fix="run the failing checks alone to see all they print",
        commands=(_again(report, target or ("--python", report.python), [check.id for check in bad[:3]]),),
        evidence={"failed": [check.id for check in bad]},
    )


def _again(report: VerifyReport, target: Sequence[str], ids: Sequence[str]) -> str:
    """Return the command that runs some checks once more, on the same device and of the same suite."""
    device = ["--device", str(report.device.get("type", DEFAULT_DEVICE))]
    how = ["--no-gpu"] if report.suite == "image" else [*device, "--suite", report.suite]
    return shlex.join(["xpubuild", "verify", *target, *how, "--only", ",".join(ids), "--json"])

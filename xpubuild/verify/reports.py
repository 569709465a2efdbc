"""Reports of a verification, and the error if it failed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xpubuild.documents import plain
from xpubuild.engine.files import explained, write_atomic
from xpubuild.engine.junit import Case, junit
from xpubuild.engine.temporary import new_draft
from xpubuild.errors import ToolchainError, VerifyError
from xpubuild.verify.model import CheckInfo, CheckResult, VerifyReport
from xpubuild.verify.target import DEFAULT_DEVICE

if TYPE_CHECKING:
    from xpubuild.verify.verify_json import VerifyChecksDocument

_MOST_NAMED = 5
#: In the result of the device's check if the cause is torch, not the machine.
_WITHOUT = "was built without"


def checks_document(checks: Sequence[CheckInfo]) -> VerifyChecksDocument:
    """Return the ``xpubuild.verify-checks/1`` document: all checks in the order they run."""
    return {"schema": "xpubuild.verify-checks/1", "checks": plain(tuple(checks))}


def write_reports(report: VerifyReport, *, json_file: Path | None, junit_file: Path | None) -> None:
    """Write the requested reports; an interrupted write leaves no partial file.

    Raises:
        NoSpaceError, ToolchainError: one cannot be written.
    """
    if json_file is not None:
        _write(json_file, (json.dumps(report.to_json(), indent=1) + "\n").encode())
    if junit_file is not None:
        _write(junit_file, junit_report(report))


def require_places(*paths: Path | None) -> None:
    """Refuse places where no report can be written, before the run that takes long.

    Raises:
        NoSpaceError, ToolchainError: naming the file.
    """
    for path in filter(None, paths):
        with _named(path):
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, draft = new_draft(path.parent)
            os.close(descriptor)
            draft.unlink()


def _write(path: Path, data: bytes) -> None:
    with _named(path):
        write_atomic(path, data)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Raise the operating system's errors with the report's path; below /proc it is "not found"."""
    try:
        with explained(path, "writing a report"):
            yield
    except FileNotFoundError as error:
        raise ToolchainError(
            f"the report {path} cannot be written", why=str(error.strerror), fix="use another folder"
        ) from error


def junit_report(report: VerifyReport) -> bytes:
    """Return the report as JUnit XML; crashes and timeouts are errors, failed checks are failures."""
    about = {f"torch.{name}": value for name, value in report.torch.items()}
    about |= {f"device.{name}": value for name, value in report.device.items()}
    return junit("xpubuild verify", [_case(check) for check in report.checks], about, report.duration_s)


def _case(check: CheckResult) -> Case:
    output = "\n".join([*(f"warning: {warning}" for warning in check.warnings), *check.output])
    return Case(
        check.group, check.id, check.status, check.bad, check.detail, check.duration_s,
        problem=f"{check.title}\n{check.detail}\n{output}", output=output, properties=check.metrics,
    )  # fmt: skip


def failure(
    report: VerifyReport, target: Sequence[str] = (), given: Sequence[str] = ()
) -> VerifyError | None:
    """Return the error of a failed verification, None if it passed.

    ``target`` are the arguments that selected what was verified, by default the interpreter; ``given`` those
    that set how its checks run.
    """
    bad = [check for check in report.checks if check.bad]
    if not bad and report.ran_nothing:
        return VerifyError(
            f"none of the {len(report.asked)} checks that were asked for was run, so nothing is verified",
            why=report.ran_nothing,
            fix="provide what they need, or ask for other checks",
            commands=("xpubuild verify --list",),
            evidence={"skipped": list(report.asked)},
        )
    if not bad:
        return None
    if without := [check for check in bad if check.id == "device.availability" and _WITHOUT in check.detail]:
        device = str(report.device.get("type", DEFAULT_DEVICE)).upper()
        return VerifyError(
            f"the torch of {report.python} cannot use {device}",
            why=without[0].detail,
            fix=f"build one with {device}, or install one that PyTorch publishes for it; or verify this"
            " one on the device that it was built for, with --device",
            commands=("xpubuild install",),
            evidence={"failed": [check.id for check in bad]},
        )
    named = "; ".join(f"{check.id} ({check.status}): {check.detail}" for check in bad[:_MOST_NAMED])
    more = f"; and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
    return VerifyError(
        f"{len(bad)} of {len(report.checks)} checks failed",
        why=named + more,
        fix="run only the failing checks to see their complete output",
        commands=(
            _again(report, target or ("--python", report.python), given, [check.id for check in bad[:3]]),
        ),
        evidence={"failed": [check.id for check in bad]},
    )


def _again(report: VerifyReport, target: Sequence[str], given: Sequence[str], ids: Sequence[str]) -> str:
    """Return the command that runs some checks again, on the same device and in the same suite."""
    device = ["--device", str(report.device.get("type", DEFAULT_DEVICE))]
    how = ["--no-gpu"] if report.suite == "image" else [*device, "--suite", report.suite]
    return shlex.join(["xpubuild", "verify", *target, *how, *given, "--only", ",".join(ids), "--json"])

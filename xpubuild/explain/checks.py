"""Reads what doctor found out on the host of a log."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ValidationError

from xpubuild.errors import UsageError
from xpubuild.untrusted import json_value, read_bytes

#: A report has some 100 kB.
_MOST_BYTES = 64 << 20


class _Check(BaseModel):
    id: str
    status: str


class _Report(BaseModel):
    checks: list[_Check]


def read_checks(path: Path) -> dict[str, str]:
    """Return check -> status of an ``xpubuild.doctor/1`` document.

    Raises:
        UsageError: the file cannot be read or is no such document.
    """
    try:
        report = _Report.model_validate(json_value(read_bytes(path, _MOST_BYTES)))
    except (OSError, ValueError, ValidationError) as error:
        raise UsageError(
            f"{path} is not a report of doctor",
            why=str(error),
            fix="pass a file with the output of xpubuild doctor --json",
        ) from error
    return {check.id: check.status for check in report.checks}

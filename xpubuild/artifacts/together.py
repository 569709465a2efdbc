"""Wheels that will be in one process, held against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.artifacts.audit_checks import sycl_findings
from xpubuild.artifacts.audit_report import AuditPolicy, AuditReport, raise_for


def check_together(reports: Sequence[AuditReport]) -> None:
    """Hold several wheels against each other: they will be in one process.

    Raises:
        AuditError: they need more than one major version of libsycl.
    """
    libraries = [
        (f"{Path(report.wheel).name}:{item.path}", (*item.needed, *item.found, item.soname))
        for report in reports
        for item in report.objects
    ]
    label = ", ".join(Path(report.wheel).name for report in reports)
    raise_for(label, list(sycl_findings(libraries)), AuditPolicy())


def check_documents(wheels: Sequence[Mapping[str, Any]]) -> None:
    """Do what ``check_together`` does, from the audits that a receipt holds.

    Raises:
        AuditError: the wheels need more than one major version of libsycl.
    """
    libraries = [
        (f"{wheel['file']}:{item['path']}", (*item["needed"], *item["found"], item["soname"]))
        for wheel in wheels
        for item in wheel["objects"]
    ]
    label = ", ".join(str(wheel["file"]) for wheel in wheels)
    raise_for(label, list(sycl_findings(libraries)), AuditPolicy())

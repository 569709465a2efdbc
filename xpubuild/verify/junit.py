"""The report as JUnit XML, for CI systems that show test results."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from xpubuild.verify.model import CheckResult, VerifyReport

# Characters that XML 1.0 has no way to write; torch prints colour codes.
_UNWRITABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(report: VerifyReport, path: Path) -> None:
    """Write the report to a file, one test suite per group.

    Crashes and timeouts are JUnit errors, failed checks are failures.
    """
    path.write_bytes(ET.tostring(to_xml(report), encoding="utf-8", xml_declaration=True))


def to_xml(report: VerifyReport) -> ET.Element:
    """Return the report as an element tree."""
    root = ET.Element("testsuites", _summary("xpubuild verify", report.checks, report.duration_s))
    for group in dict.fromkeys(check.group for check in report.checks):
        checks = tuple(check for check in report.checks if check.group == group)
        seconds = sum(check.duration_s for check in checks)
        suite = ET.SubElement(root, "testsuite", _summary(group, checks, seconds))
        properties = ET.SubElement(suite, "properties")
        for part in ("torch", "device"):
            for name, value in getattr(report, part).items():
                ET.SubElement(properties, "property", name=f"{part}.{name}", value=_text(value))
        for check in checks:
            suite.append(_case(check))
    return root


def _case(check: CheckResult) -> ET.Element:
    case = ET.Element("testcase", classname=check.group, name=check.id, time=_time(check.duration_s))
    output = "\n".join([*(f"warning: {warning}" for warning in check.warnings), *check.output])
    if check.metrics:
        properties = ET.SubElement(case, "properties")
        for name, value in check.metrics.items():
            ET.SubElement(properties, "property", name=name, value=_text(value))
    if check.status == "skip":
        ET.SubElement(case, "skipped", message=_text(check.detail))
    elif check.bad:
        kind = "failure" if check.status == "fail" else "error"
        problem = ET.SubElement(case, kind, type=check.status, message=_text(check.detail))
        problem.text = _text(f"{check.title}\n{check.detail}\n{output}")
    if output:
        ET.SubElement(case, "system-out").text = _text(output)
    return case


def _summary(name: str, checks: tuple[CheckResult, ...], seconds: float) -> dict[str, str]:
    return {
        "name": name,
        "time": _time(seconds),
        "tests": str(len(checks)),
        "failures": str(sum(check.status == "fail" for check in checks)),
        "errors": str(sum(check.status in ("crash", "timeout") for check in checks)),
        "skipped": str(sum(check.status == "skip" for check in checks)),
    }


def _time(seconds: float) -> str:
    return f"{seconds:.3f}"


def _text(value: object) -> str:
    return _UNWRITABLE.sub("?", str(value))

"""A run as JUnit XML, for CI systems that show test results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from xpubuild.doctor.report import Report, Result

# Characters that XML 1.0 has no way to write.
_UNWRITABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> bytes:
    """Return the report as an XML document: a test suite per group, warnings as output of passed tests."""
    root = ET.Element("testsuites", _summary("xpubuild doctor", report.results))
    for group in dict.fromkeys(item.group for item in report.results):
        members = [item for item in report.results if item.group == group]
        suite = ET.SubElement(root, "testsuite", _summary(group, members))
        suite.extend([_case(item) for item in members])
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _case(result: Result) -> ET.Element:
    case = ET.Element("testcase", classname=result.group, name=result.id, time=f"{result.duration_s:.3f}")
    if result.status == "skip":
        ET.SubElement(case, "skipped", message=_text(result.detail))
    elif result.bad:
        kind = "failure" if result.status == "fail" else "error"
        problem = ET.SubElement(case, kind, type=result.status, message=_text(result.detail))
        problem.text = _told(result)
    elif result.status == "warn":
        ET.SubElement(case, "system-out").text = _text(f"warning: {_told(result)}")
    return case


def _told(result: Result) -> str:
    lines = [result.title, result.detail]
    if result.fix:
        lines += [f"fix: {result.fix.summary}", *(f"  {command}" for command in result.fix.commands)]
    if result.docs:
        lines.append(f"see {result.docs}")
    return _text("\n".join(lines))


def _summary(name: str, results: Sequence[Result]) -> dict[str, str]:
    return {
        "name": name,
        "time": f"{sum(item.duration_s for item in results):.3f}",
        "tests": str(len(results)),
        "failures": str(sum(item.status == "fail" for item in results)),
        "errors": str(sum(item.status == "error" for item in results)),
        "skipped": str(sum(item.status == "skip" for item in results)),
    }


def _text(value: str) -> str:
    return _UNWRITABLE.sub("?", value)

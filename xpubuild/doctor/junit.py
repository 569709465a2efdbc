"""A run of doctor as JUnit XML."""

from __future__ import annotations

from xpubuild.doctor.report import Report, Result
from xpubuild.engine.junit import Case, junit


def junit_report(report: Report) -> bytes:
    """Return the report as an XML document; warnings are output of passed tests."""
    seconds = sum(result.duration_s for result in report.results)
    return junit("xpubuild doctor", [_case(result) for result in report.results], {}, seconds)


def _case(result: Result) -> Case:
    lines = [result.title, result.detail]
    if result.fix:
        lines += [f"fix: {result.fix.summary}", *(f"  {command}" for command in result.fix.commands)]
    if result.docs:
        lines.append(f"see {result.docs}")
    told = "\n".join(lines)
    return Case(
        result.group, result.id, result.status, result.bad, result.detail, result.duration_s,
        problem=told, output=f"warning: {told}" if result.status == "warn" else "",
    )  # fmt: skip

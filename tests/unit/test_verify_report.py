"""The report: its document, its JUnit form, and the records it is made of."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

from xpubuild.verify.model import CheckResult, VerifyReport
from xpubuild.verify.reports import failure, junit_report


def result(identifier: str, status: str, **fields: object) -> CheckResult:
    group = identifier.partition(".")[0]
    return CheckResult(id=identifier, title=f"title of {identifier}", group=group, status=status, **fields)  # type: ignore[arg-type]


REPORT = VerifyReport(
    suite="smoke",
    python="/env/bin/python",
    checks=(
        result("a.good", "pass", duration_s=1.25, metrics={"error": 1e-7}),
        result("a.no", "fail", duration_s=0.5, detail="off by <5> & more", output=("red \x1b[31mline",)),
        result("b.dead", "crash", detail="SIGSEGV"),
        result("b.slow", "timeout", detail="still running"),
        result("b.none", "skip", detail="no streams"),
    ),
    torch={"version": "2.13.0"},
    device={"type": "cpu"},
    duration_s=2.0,
)


def test_whatever_was_asked_for_and_ran_nothing_of_its_own_is_no_pass() -> None:
    needed = result("import.torch", "pass")
    skipped = result("dynamo.models", "skip", detail="needs a source tree: --source DIR")
    report = replace(REPORT, suite="dynamo", checks=(needed, skipped), asked=("dynamo.models",))
    error = failure(report)
    assert (report.status, error is not None and error.exit_code) == ("fail", 70)
    assert error is not None
    assert error.why == "dynamo.models: needs a source tree: --source DIR"
    # One that ran is enough; a check that another one needs is not.
    ran = replace(report, checks=(result("dynamo.models", "pass"), *report.checks))
    assert (ran.status, failure(ran)) == ("pass", None)


def test_junit_counts_and_separates_failures_from_errors() -> None:
    root = ET.fromstring(junit_report(REPORT))  # noqa: S314 - our own
    assert {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5", "failures": "1", "errors": "2", "skipped": "1",
    }  # fmt: skip
    assert [suite.get("name") for suite in root.iterfind("testsuite")] == ["a", "b"]
    failure = root.find(".//testcase[@name='a.no']/failure")
    assert failure is not None
    assert failure.get("message") == "off by <5> & more"
    assert "red ?[31mline" in str(failure.text)
    assert [e.get("type") for e in root.iter("error")] == ["crash", "timeout"]
    properties = {item.get("name"): item.get("value") for item in root.iter("property")}
    assert properties == {"torch.version": "2.13.0", "device.type": "cpu", "error": "1e-07"}
    assert (root.get("time"), root[0].get("time")) == ("2.000", "1.750")

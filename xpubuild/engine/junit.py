"""JUnit XML, for CI systems that show test results: what doctor and verify found."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any
from xml.etree import ElementTree as ET

from xpubuild.frozen import frozen

# Characters that XML 1.0 has no way to write; torch prints colour codes.
_UNWRITABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@frozen
class Case:
    """A check. ``problem`` is shown where it is ``bad``, ``output`` in any case.

    A bad one with status ``fail`` is a failure, any other an error; ``skip`` is skipped.
    """

    group: str
    id: str
    status: str
    bad: bool
    detail: str
    duration_s: float
    problem: str
    output: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)


def junit(name: str, cases: Sequence[Case], properties: Mapping[str, Any], duration_s: float) -> bytes:
    """Return an XML document with a test suite per group, each with the ``properties`` of the whole run."""
    root = ET.Element("testsuites", {**_summary(name, cases), "time": f"{duration_s:.3f}"})
    for group in dict.fromkeys(case.group for case in cases):
        members = [case for case in cases if case.group == group]
        suite = ET.SubElement(root, "testsuite", _summary(group, members))
        _properties(suite, properties)
        for case in members:
            time, message = f"{case.duration_s:.3f}", _text(case.detail)
            element = ET.SubElement(suite, "testcase", classname=group, name=case.id, time=time)
            _properties(element, case.properties)
            if case.status == "skip":
                ET.SubElement(element, "skipped", message=message)
            elif case.bad:
                kind = "failure" if case.status == "fail" else "error"
                ET.SubElement(element, kind, type=case.status, message=message).text = _text(case.problem)
            if case.output:
                ET.SubElement(element, "system-out").text = _text(case.output)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _properties(element: ET.Element, values: Mapping[str, Any]) -> None:
    if values:
        properties = ET.SubElement(element, "properties")
        for name, value in values.items():
            ET.SubElement(properties, "property", name=name, value=_text(value))


def _summary(name: str, cases: Sequence[Case]) -> dict[str, str]:
    failures = sum(case.status == "fail" for case in cases)
    counts = {
        "tests": len(cases), "failures": failures, "errors": sum(case.bad for case in cases) - failures,
        "skipped": sum(case.status == "skip" for case in cases),
    }  # fmt: skip
    seconds = sum(case.duration_s for case in cases)
    return {"name": name, "time": f"{seconds:.3f}", **{key: str(count) for key, count in counts.items()}}


def _text(value: object) -> str:
    return _UNWRITABLE.sub("?", str(value))

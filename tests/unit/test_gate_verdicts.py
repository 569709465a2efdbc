"""What a rule of the gate depends on, and everything that it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from xpubuild.artifacts.gate_rules import Expectation, GateRule
from xpubuild.artifacts.gate_watcher import WatchStep
from xpubuild.artifacts.xpu_gate import XpuGate
from xpubuild.engine.model import Caution, Stop
from xpubuild.errors import NoSpaceError

RULE = {
    "id": "a-rule", "kind": "stop", "find": ("lost",), "line": "lost ?(?P<value>\\w*)", "compare": "off",
    "what": "it is lost", "why": "{asked} was asked, {found} was found in {source}, {environment}",
    "fix": "mend {sycl_root} and {ccl_root}", "commands": ("ls {cxx}", "two"), "source": "https://example.org",
}  # fmt: skip


def gate(**change: Any) -> XpuGate:
    switches: Mapping[str, str] = change.pop("switches", {})
    rule = GateRule(**{**RULE, **change})
    return XpuGate(Expectation("2.8.0", switches, "/src", "/ws/env"), [rule])


@pytest.mark.parametrize(
    ("switches", "fix", "command"),
    [
        ({}, "mend $CMPLR_ROOT and $CCL_ROOT", "ls g++"),
        ({"CMPLR_ROOT": "/c", "CCL_ROOT": "/d", "CXX": "/x"}, "mend /c and /d", "ls /x"),
        ({"CMPLR_ROOT": "/c", "SYCL_ROOT": "/s"}, "mend /s and $CCL_ROOT", "ls g++"),
    ],
)
def test_a_stop_has_everything_that_its_rule_says(
    switches: Mapping[str, str], fix: str, command: str
) -> None:
    (found,) = gate(switches=switches).line("-- Lost or lost off", 7)
    assert isinstance(found, Stop)
    document = {name: value for name, value in found.error.to_json().items() if value}
    assert document == {
        "code": "no-xpu", "exit_code": 53, "what": "it is lost",
        "why": "on was asked, off was found in /src, /ws/env", "fix": fix, "commands": [command, "two"],
        "evidence": {"rule": "a-rule", "file": None, "asked": "on", "found": "off",
                     "source": "https://example.org", "lines": [{"line": 7, "text": "-- Lost or lost off"}]},
    }  # fmt: skip


def test_a_warning_has_everything_that_its_rule_says() -> None:
    watching = gate(kind="warning")
    (found,) = watching.line("lost", 7)
    why = "on was asked, nothing was found in /src, /ws/env"
    fix = "mend $CMPLR_ROOT and $CCL_ROOT"
    assert found == Caution(
        "a-rule",
        f"it is lost: {why}; fix: {fix}; run: ls g++; run: two",
        ("lost",),
        {"rule": "a-rule", "file": None, "asked": "on", "found": "nothing", "source": "https://example.org",
         "fix": fix},
    )  # fmt: skip
    assert watching.line("lost again", 8) == []


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ({}, True),
        ({"needs": ("USE_A", "USE_B")}, True),
        ({"needs": ("USE_A", "USE_OFF")}, False),
        ({"asked": "USE_ON"}, True),
        ({"asked": "USE_OFF"}, False),
        ({"asked": "USE_UNSET"}, False),
        ({"asked": "USE_UNSET", "by_default": ">=2.8"}, True),
        ({"asked": "USE_UNSET", "by_default": ">=2.9"}, False),
        ({"asked": "MKL"}, False),
        ({"releases": ">=2.8"}, True),
        ({"releases": ">2.8"}, False),
        ({"targets": ("dg2",)}, False),
        ({"targets": ("dg2", "pv")}, True),
        ({"exists": ("/proc/self/sta?us",)}, True),
        ({"exists": ("/proc/self/sta?us", "/nowhere/*")}, False),
        ({"lacks": ("/nowhere/*",)}, True),
        ({"lacks": ("/nowhere/*", "/proc/self/sta?us")}, False),
    ],
)
def test_what_a_rule_depends_on(change: Mapping[str, Any], asked: bool) -> None:
    switches = {"USE_ON": "YES", "USE_OFF": "No", "TORCH_XPU_ARCH_LIST": "PVC;none"}
    assert bool(gate(switches=switches, **change).line("lost off", 1)) is asked


@pytest.mark.parametrize("value", ["0", "off", "FALSE", "no", "n", ""])
def test_what_cmake_reads_as_off(value: str) -> None:
    assert gate().line(f"lost {value}", 1)
    assert not gate().line("lost 1", 1)
    on = {"0": "1", "off": "on", "FALSE": "TRUE", "no": "yes", "n": "y", "": "Y"}[value]
    assert gate(asked="USE_A", switches={"USE_A": on}).line("lost off", 1)
    assert not gate(asked="USE_A", switches={"USE_A": value}).line("lost off", 1)
    assert not gate(asked="USE_A", switches={"USE_A": "2"}).line("lost off", 1)


def test_a_full_disk_is_told_as_explain_knows_it() -> None:
    line = "cc1plus: fatal error: x.s: No space left on device"
    (found,) = WatchStep(xpu=False)().line(line, 3)
    assert isinstance(found, Stop)
    error = found.error
    assert isinstance(error, NoSpaceError)
    assert error.fix.endswith(" Then run the same command again: finished steps are kept")
    assert error.evidence.keys() == {"rule", "file", "lines", "source"}
    assert (error.evidence["file"], error.evidence["lines"]) == (None, [{"line": 1, "text": line}])
    assert error.evidence["source"].startswith("http")
    assert error.what
    assert error.why
    assert error.commands


def test_the_first_failed_edge_is_reported_while_ninja_waits_for_the_rest() -> None:
    watcher = WatchStep(False)()
    lines = (
        "[1/9] Building CXX object a.o",
        "FAILED: [code=1] CMakeFiles/cmTC_0a1b2.dir/src.c.o",
        "  FAILED: [code=1] src/b.dir/b.cpp.o /src/b.dir/b.cpp.o",
        "FAILED: c.o",
    )
    found = [verdict for number, line in enumerate(lines, 1) for verdict in watcher.line(line, number)]
    assert [(type(one), getattr(one, "id", "")) for one in found] == [(Caution, "edge-failed")]
    assert "b.cpp.o failed" in getattr(found[0], "text", "")

"""Verify's harness and child against a fake target: each way in which a process can end, whole documents."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from support.cli import Xpubuild
from support.fake_target import DEVICE, METRICS, TORCH, FakeTarget

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel
from xpubuild.errors import InterruptedByUserError
from xpubuild.verify.baseline import Baseline
from xpubuild.verify.catalogue import list_checks
from xpubuild.verify.harness import LOG_NAME, run_suite
from xpubuild.verify.model import CheckResult

ATEN = ["aten.elementwise", "aten.reduction", "aten.matmul_fp32"]
FIRST, SECOND, THIRD = ATEN
BEFORE = ["import.torch", "device.availability"]
TITLES = {check.id: check.title for check in list_checks()}


def verified(target: FakeTarget, work: Path, **given: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {"device": "cpu", "env": base_environment(), "only": ATEN, **given}
    return run_suite(target.python, work=work, **arguments).to_json()


def result(name: str, status: str = "pass", **fields: Any) -> dict[str, Any]:
    """Return what the document has of a check that ended with a record."""
    return {
        "id": name, "title": TITLES[name], "group": name.partition(".")[0], "status": status,
        "duration_s": 0.25, "detail": f"detail of {name}", "metrics": METRICS,
        "output": [f"output of {name}"], "warnings": [f"warning of {name}"], **fields,
    }  # fmt: skip


def died(name: str, status: str, output: list[str]) -> dict[str, Any]:
    """Return the same of one in which the process died, but for its detail and time."""
    found = result(name, status, metrics={}, warnings=[], output=output)
    return {key: value for key, value in found.items() if key not in ("detail", "duration_s")}


#: How the second check ends -> its status, what its detail has (values alone), its output.
ENDS = {
    "crash": ("crash", "SIGSEGV", [f"output of {SECOND}"]),
    "exit": ("crash", r"\b5\b", [f"output of {SECOND}"]),
    "half": ("crash", r"\b0\b", [f"output of {SECOND}", f'{{"event": "result", "id": "{SECOND}", "sta']),
    "early": ("crash", r"\b3\b", []),
    "hang": ("timeout", r"\b[2-9] s", [f"output of {SECOND}"]),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_process_that_dies_costs_one_check_and_the_rest_runs(how: str, tmp_path: Path) -> None:
    status, detail, output = ENDS[how]
    target = FakeTarget(tmp_path / "my env", {SECOND: how})
    emitted: list[CheckResult] = []
    document = verified(
        target, tmp_path / "work", emit=emitted.append, deadline_s=2.0 if how == "hang" else None
    )
    checks = {check["id"]: check for check in document.pop("checks")}
    assert document.pop("duration_s") > 0
    assert document == {
        "schema": "xpubuild.verify/1", "status": "fail", "suite": "smoke", "python": str(target.python),
        "torch": TORCH, "device": DEVICE, "asked": ATEN,
        "summary": {"pass": 4, "fail": 0, "skip": 0, "crash": 0, "timeout": 0} | {status: 1},
    }  # fmt: skip
    dead = checks[SECOND]
    assert re.search(detail, dead.pop("detail"))
    assert dead.pop("duration_s") >= (2 if how == "hang" else 0)
    assert dead == died(SECOND, status, output)
    assert [checks[name] for name in (*BEFORE, FIRST, THIRD)] == [
        result(name) for name in (*BEFORE, FIRST, THIRD)
    ]
    assert target.groups() == [["import.torch"], ["device.availability"], ATEN, [THIRD]]
    assert [check.id for check in emitted] == [*BEFORE, *ATEN]
    log = (tmp_path / "work" / LOG_NAME).read_text(errors="replace")
    assert f"== {THIRD}\n" in log
    assert f"output of {FIRST}\n" in log


def test_each_status_that_a_record_has_is_the_checks(tmp_path: Path) -> None:
    target = FakeTarget(tmp_path / "env", {FIRST: "fail", SECOND: "skip"})
    document = verified(target, tmp_path / "work")
    assert document["checks"][2:] == [result(FIRST, "fail"), result(SECOND, "skip"), result(THIRD)]
    assert document["summary"] == {"pass": 3, "fail": 1, "skip": 1, "crash": 0, "timeout": 0}
    assert document["status"] == "fail"
    assert len(target.runs()) == 3


def test_what_looks_like_a_record_is_output(tmp_path: Path) -> None:
    target = FakeTarget(tmp_path / "env", {SECOND: "garbage"})
    document = verified(target, tmp_path / "work")
    assert document["summary"] == {"pass": 5, "fail": 0, "skip": 0, "crash": 0, "timeout": 0}
    output = document["checks"][3].pop("output")
    expected = result(SECOND)
    del expected["output"]
    assert document["checks"][3] == expected
    assert output[:6] == [f"output of {SECOND}", "{", "[1]", "x", '{"id": 1}', '{"event": "result"}']
    assert len(output) == 11


def test_of_much_output_the_end_is_kept(tmp_path: Path) -> None:
    document = verified(FakeTarget(tmp_path / "env", {SECOND: "flood"}), tmp_path / "work")
    assert document["checks"][3] == result(SECOND, output=[f"line {n}" for n in range(49_960, 50_000)])
    assert document["checks"][4] == result(THIRD), "none of it is the next check's"


@pytest.mark.parametrize("how", ["fail", "skip", "crash"])
def test_what_needs_a_check_that_did_not_pass_is_skipped(how: str, tmp_path: Path) -> None:
    target = FakeTarget(tmp_path / "env", {"device.availability": how})
    document = verified(target, tmp_path / "work")
    assert [check["status"] for check in document["checks"]] == ["pass", how, "skip", "skip", "skip"]
    assert all("device.availability" in check["detail"] for check in document["checks"][2:])
    assert document["device"] == ({"type": "cpu"} if how == "crash" else DEVICE)
    assert len(target.runs()) == 2


def test_what_a_process_is_given(tmp_path: Path) -> None:
    target, work = FakeTarget(tmp_path / "env", {}), tmp_path / "work"
    env = {**base_environment(), "PYTORCH_X": "1", "TMPDIR": "/elsewhere"}
    started: list[str] = []
    document = verified(
        target, work, env=env, only=["aten.sort", "speed.launch"], require=["ops", "vision"],
        options={"source": "/src", "models": "a,b"}, started=started.append,
    )  # fmt: skip
    smoke = [check for check in list_checks() if "smoke" in check.suites]
    parts = [[check.id for check in smoke if check.group == part] for part in ("ops", "vision")]
    groups = [["import.torch"], [*BEFORE[1:], "device.properties"], ["aten.sort"], *parts, ["speed.launch"]]
    assert target.groups() == groups
    assert started == [name for group in groups for name in group] == [c["id"] for c in document["checks"]]
    words = ["--device", "cpu", "--require", "ops", "--require", "vision",
             "--option", "source=/src", "--option", "models=a,b", "--"]  # fmt: skip
    for run, group in zip(target.runs(), groups, strict=True):
        assert run["words"] == [*words, *group]
        given = run["env"]
        assert given["PYTORCH_X"] == "1"
        assert (given["TORCHINDUCTOR_CACHE_DIR"], given["TRITON_CACHE_DIR"]) == (
            f"{work}/inductor", f"{work}/triton",
        )  # fmt: skip
        assert given["TMPDIR"] == f"{work}/tmp"
        # What is measured spins as the user's programs would.
        assert given.get("OMP_WAIT_POLICY") == (None if group == ["speed.launch"] else "passive")


def test_control_c_ends_the_run(tmp_path: Path) -> None:
    target, cancel = FakeTarget(tmp_path / "env", {SECOND: "hang"}), Cancel()

    def stop(name: str) -> None:
        if name == SECOND:
            cancel.set("asked to")

    with pytest.raises(InterruptedByUserError) as caught:
        verified(target, tmp_path / "work", started=stop, cancel=cancel)
    assert caught.value.why == "asked to"
    assert caught.value.evidence == {"finished": sorted([*BEFORE, FIRST])}
    assert len(target.runs()) == 3


@pytest.mark.parametrize("device", ["fake device", "another"])
def test_a_speed_below_the_baseline_is_a_warning(tmp_path: Path, device: str) -> None:
    earlier = Baseline(
        device, "2.12", {FIRST: {"gemm_tflops": 4.0, "launch_us": 4.0}, SECOND: {"launch_us": 1.0}}
    )
    document = verified(FakeTarget(tmp_path / "env", {}), tmp_path / "w", baseline=earlier)
    assert document["status"] == "pass"
    own, *more = zip(*(document["checks"][number]["warnings"] for number in (2, 3)), strict=True)
    assert own == (f"warning of {FIRST}", f"warning of {SECOND}")
    ((of_first, of_second),) = more
    if device == "another":
        assert "fake device" in of_first
        assert "another" in of_second
    else:
        assert re.findall(r"gemm_tflops|[0-9.]+%?", of_first) == ["gemm_tflops", "2", "50%", "4"]
        assert re.findall(r"launch_us|[0-9.]+%?", of_second) == ["launch_us", "4", "25%", "1"]
    assert document["checks"][4] == result(THIRD)


def test_the_command_line(tmp_path: Path, xpubuild: Xpubuild) -> None:
    target = FakeTarget(tmp_path / "env", {SECOND: "crash"})
    words = ("verify", "--python", str(target.python), "--device", "cpu", "--only", ",".join(ATEN))
    files = ("--output", str(tmp_path / "report.json"), "--junit", str(tmp_path / "report.xml"))
    bad = xpubuild(*words, *files, "--json")
    assert bad.status == 70
    document = bad.document()
    assert document["summary"]["crash"] == 1
    assert json.loads((tmp_path / "report.json").read_text()) == document
    assert ET.parse(tmp_path / "report.xml").getroot().get("errors") == "1"  # noqa: S314 - our own
    text = xpubuild(*words)
    assert text.status == 70
    assert SECOND in text.out + text.err
    assert "SIGSEGV" in text.out + text.err
    FakeTarget(tmp_path / "env", {})
    assert xpubuild.json(*words)["status"] == "pass"


def test_quiet_prints_the_result_and_failures_only(tmp_path: Path, xpubuild: Xpubuild) -> None:
    target = FakeTarget(tmp_path / "env", {})
    words = ("verify", "--python", str(target.python), "--device", "cpu", "--only", ",".join(ATEN), "-q")
    good = xpubuild(*words)
    assert good.status == 0
    assert "pass (5 pass)" in good.out
    assert FIRST not in good.out + good.err
    FakeTarget(tmp_path / "env", {SECOND: "fail"})
    bad = xpubuild(*words)
    assert bad.status == 70
    assert "fail (4 pass, 1 fail)" in bad.out
    assert SECOND in bad.err
    assert FIRST not in bad.out + bad.err


def test_on_the_stand_in_the_report_says_so_and_what_proves_nothing_is_skipped(tmp_path: Path) -> None:
    target = FakeTarget(tmp_path / "env", {})
    document = verified(target, tmp_path / "work", stand_in=True)
    assert document["device"] == {**DEVICE, "stand_in": True}
    checks = {check["id"]: check for check in document["checks"]}
    assert (checks[THIRD]["status"], checks[FIRST]["status"]) == ("skip", "pass")
    assert checks[THIRD]["detail"] == "not proved on the stand-in: oneDNN's operators are computed on the CPU"
    assert target.groups()[-1] == [FIRST, SECOND]
    assert document["status"] == "pass"

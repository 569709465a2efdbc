"""Broken on purpose: each way is caught by the check that should, and named rightly.

Every check of the smoke suite and of the groups runtime, aten and onednn is made to fail by at least one
mutation here or in test_verify_interpreter.py.
What a CPU lacks is simulated; mutations that only a device can show are run by scripts/verify-mutations.py.
Of each group of checks the first mutation is tried always, the others by make test with --on-demand.
Wrong results are looked for by an interpreter that is forked (warm_python.py); crashes, hangs and what the
environment breaks by one that is started.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from integration.verify_mutations import load, program
from integration.verify_support import Target, bad, by_id

from xpubuild.verify.catalogue import list_checks

MUTATIONS = load()
#: The checks of one group, one process, that the smoke suite has.
ATEN = tuple(check.id for check in list_checks() if check.group == "aten" and "smoke" in check.suites)
ON_CPU = [mutation for mutation in MUTATIONS if "cpu" in mutation["devices"] and not mutation.get("media")]
FIRST = {mutation["check"].split(".")[0]: mutation for mutation in reversed(ON_CPU)}
#: What they share is made once.
pytestmark = pytest.mark.xdist_group("verify-mutations")


def _tried(mutation: dict[str, Any]) -> Any:
    always = mutation in FIRST.values()
    return pytest.param(mutation, id=str(mutation["name"]), marks=() if always else pytest.mark.on_demand)


@pytest.mark.parametrize("mutation", [_tried(mutation) for mutation in ON_CPU])
def test_wrong_results_are_found_by_their_check(target: Target, warm: Path, mutation: dict[str, Any]) -> None:
    check, status = mutation["check"], mutation.get("status", "fail")
    environ = mutation.get("environ", {})
    target.env.environ.update(environ)
    report = target.verify(
        check,
        mutation=program(mutation, "cpu"),
        module=mutation["module"],
        deadline_s=mutation.get("deadline_s"),
        # Libraries may read their variables when they are loaded.
        python=warm if status == "fail" and not environ else None,
    )
    assert bad(report) == {check: status}
    assert report.status == "fail"
    result = by_id(report)[check]
    assert mutation["detail"] in " ".join([result.detail, *result.output])


def test_every_check_has_a_mutation() -> None:
    """A check that nothing can make fail is no check. A CPU has no streams and compiles no kernels when they
    run; other tests have the rest, test_verify_workflows.py those of torchvision and torchaudio."""
    elsewhere = {"import.torch", "device.availability", "ops.import", "runtime.no_jit"}
    covered = {
        check.id
        for check in list_checks()
        if ("smoke" in check.suites and check.group not in ("vision", "audio"))
        or check.group in ("runtime", "aten", "onednn")
    }
    assert covered - elsewhere - {mutation["check"] for mutation in MUTATIONS} == set()
    known = {check.id for check in list_checks()}
    assert {mutation["check"] for mutation in MUTATIONS} <= known


def test_segfault_is_a_crash_with_signal_and_stack_and_the_rest_goes_on(target: Target) -> None:
    report = target.verify(
        "device", *ATEN, mutation="import ctypes\ntorch.erf = lambda x: ctypes.string_at(0)"
    )
    result = by_id(report)["aten.elementwise"]
    assert bad(report) == {"aten.elementwise": "crash"}, result
    assert "SIGSEGV" in result.detail
    assert any("Segmentation fault" in line for line in result.output)
    assert any("in elementwise" in line for line in result.output)
    after = [check.status for check in report.checks if check.group == "aten"][1:]
    assert after == ["pass"] * 5


def test_hang_is_a_timeout_that_shows_where_and_the_rest_goes_on(target: Target) -> None:
    report = target.verify(*ATEN, mutation="import time\ntorch.erf = lambda x: time.sleep(600)", deadline_s=4)
    assert bad(report) == {"aten.elementwise": "timeout"}
    result = by_id(report)["aten.elementwise"]
    assert re.fullmatch(r"still running after \d+ s", result.detail)
    assert 4 <= result.duration_s < 30
    assert any("in elementwise" in line for line in result.output)
    assert [check.status for check in report.checks if check.group == "aten"][1:] == ["pass"] * 5


def test_crash_before_the_first_check_is_put_down_to_it(target: Target, warm: Path) -> None:
    """The interpreter dies while it imports torch, but not in the process that proved the import."""
    mutation = "import os, sys\nif 'aten.sort' in sys.argv: os.abort()"
    report = target.verify("aten.sort", mutation=mutation, python=warm)
    assert bad(report) == {"aten.sort": "crash"}
    assert by_id(report)["aten.sort"].detail.endswith("SIGABRT (before the check began)")


@pytest.mark.parametrize(
    "check", ["ops.compile", pytest.param("model.resnet50_compile", marks=pytest.mark.on_demand)]
)
def test_compiler_that_is_missing_at_run_time(target: Target, warm: Path, check: str) -> None:
    report = target.verify(
        check, mutation="import os\nos.environ.update(PATH='/nowhere', CXX='')", python=warm
    )
    assert bad(report) == {check: "fail"}
    assert "InvalidCxxCompiler" in by_id(report)[check].detail

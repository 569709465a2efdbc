"""What stands around the checks, as whole objects: target, options, errors, reports, baselines, a tree."""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from support.cli import Xpubuild
from support.fake_target import FakeTarget
from support.files import script
from support.releases import TARGET_PACKAGES

from xpubuild.engine.environment import base_environment
from xpubuild.errors import ToolchainError, UsageError, XpuBuildError
from xpubuild.resources import suite_dir
from xpubuild.verify import baseline
from xpubuild.verify.baseline import Baseline
from xpubuild.verify.catalogue import select
from xpubuild.verify.harness import run_suite
from xpubuild.verify.launch import launched, of_the_job
from xpubuild.verify.model import CheckResult, VerifyReport
from xpubuild.verify.reports import failure, junit_report, require_places, write_reports
from xpubuild.verify.suite import registry, triton_pairing
from xpubuild.verify.suite.registry import GROUPS, LANES, turns
from xpubuild.verify.target import Target, resolve_target


def told(error: XpuBuildError) -> tuple[Any, ...]:
    """Return all that the user reads of an error."""
    return (type(error), error.what, error.why, error.fix, tuple(error.commands), error.evidence)


def test_ranks_on_other_nodes_are_started_by_the_batch_system_of_the_job() -> None:
    assert launched(None, "aprun", {}) == {}
    slurm = {"SLURM_JOB_ID": "7", "HOME": "/root", "PMI_RANK": "0"}
    found = launched(2, None, slurm)
    assert found["nodes"] == "2"
    assert found["launcher"].startswith("srun --nodes={nodes} ")
    assert launched(3, None, {"PBS_JOBID": "7"})["launcher"].startswith("mpiexec -n {ranks} ")
    assert launched(2, "aprun -n {ranks}", slurm) == {"nodes": "2", "launcher": "aprun -n {ranks}"}
    assert of_the_job(slurm) == {"SLURM_JOB_ID": "7", "PMI_RANK": "0"}


@pytest.mark.parametrize(
    ("nodes", "launcher", "caller", "said"),
    [
        (1, None, {"PBS_JOBID": "7"}, "--nodes cannot be 1"),
        (2.5, None, {"PBS_JOBID": "7"}, "--nodes cannot be 2.5"),
        (2, None, {}, "needs a job"), (2, "srun {tasks}", {}, "--launcher cannot be 'srun {tasks}'"),
    ],
)  # fmt: skip
def test_nodes_that_no_ranks_can_run_on(
    nodes: float, launcher: str | None, caller: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        launched(nodes, launcher, caller)


def test_nodes_are_for_the_suite_distributed(xpubuild: Xpubuild) -> None:
    result = xpubuild("verify", "--python", sys.executable, "--nodes", "2")
    assert result.status == 2
    assert "has no effect without --suite distributed" in result.err


DECIDING = {
    "ZE_AFFINITY_MASK": "0",
    "CUDA_VISIBLE_DEVICES": "1",
    "LD_LIBRARY_PATH": "/lib",
    "OMP_NUM_THREADS": "2",
}


def test_an_interpreter_keeps_what_decides_about_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = script(tmp_path / "bin" / "some-python", "")
    for name, value in DECIDING.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("UNRELATED", "1")
    monkeypatch.setenv("PATH", f"{python.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    env = {**base_environment(), **DECIDING}
    assert "UNRELATED" not in env
    for given in ("some-python", "bin/some-python", "~/bin/some-python", str(python)):
        assert resolve_target(given, None, None) == Target(python, env, "xpu")
    assert resolve_target(str(python), tmp_path / "ignored", "cuda") == Target(python, env, "cuda")
    with pytest.raises(UsageError) as caught:
        resolve_target(None, None, None)
    assert told(caught.value) == (
        UsageError, "nothing to verify", "", "pass --python, --workspace or a recipe", (), {},
    )  # fmt: skip


def test_a_workspace_is_verified_for_what_it_was_built_for(tmp_path: Path) -> None:
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "receipt.json").write_text('{"summary": {"target": "cpu"}}')
    found = resolve_target(None, tmp_path, None)
    python = tmp_path / "env" / "bin" / "python"
    assert (found.python, found.device, found.source) == (python, "cpu", None)
    assert found.env["VIRTUAL_ENV"] == str(tmp_path / "env")
    assert found.env["PATH"].startswith(f"{python.parent}:")
    (tmp_path / "src" / "torch").mkdir(parents=True)
    (tmp_path / "receipt.json").write_text("{}")
    assert replace(resolve_target(None, tmp_path, None), env={}) == Target(
        python, {}, "xpu", tmp_path / "src" / "torch"
    )
    assert resolve_target(None, tmp_path, "cuda").device == "cuda"
    own = {"summary": {"torch_tree": str(tmp_path / "env")}}
    (tmp_path / "receipt.json").write_text(json.dumps(own))
    assert resolve_target(None, tmp_path, None).source == tmp_path / "env", "of --source-dir"


def results(*statuses: str) -> tuple[CheckResult, ...]:
    return tuple(
        CheckResult(f"a.c{number}", f"title {number}", "a", status, 1.5, f"detail {number}")  # type: ignore[arg-type]
        for number, status in enumerate(statuses)
    )


def test_the_error_of_a_failed_run_names_some_and_counts_the_rest() -> None:
    report = VerifyReport(
        "full", "/env/bin/python", results("pass", *["fail"] * 4, "crash", "timeout", "skip")
    )
    error = failure(report, ("--workspace", "/w s"))
    bad = [f"a.c{number}" for number in range(1, 7)]
    said = [f"a.c{number} (fail): detail {number}" for number in range(1, 5)]
    assert told(error)[1:] == (
        "6 of 8 checks failed",
        "; ".join([*said, "a.c5 (crash): detail 5", "and 1 more"]),
        "run only the failing checks to see their complete output",
        ("xpubuild verify --workspace '/w s' --device xpu --suite full --only a.c1,a.c2,a.c3 --json",),
        {"failed": bad},
    )  # fmt: skip
    assert "more" not in failure(replace(report, checks=results(*["fail"] * 5))).why
    assert failure(replace(report, checks=results("pass", "skip"))) is None


def test_a_baseline_is_kept_where_the_new_run_measured_nothing(tmp_path: Path) -> None:
    cells = {"device": "a GPU", "driver": "1", "torch": "2.13", "passed": ["add float32"], "bad": []}
    first = Baseline("a GPU", "2.12", {"speed.copy": {"copy_gb_s": 5.0}}, cells)
    path = tmp_path / "baseline.json"
    baseline.write(first, path)
    assert baseline.read(path) == first
    assert json.loads(path.read_text()) == {
        "schema": "xpubuild.verify-baseline/1", "device": "a GPU", "torch": "2.12",
        "speeds": {"speed.copy": {"copy_gb_s": 5.0}}, "operators": cells,
    }  # fmt: skip
    fast = replace(results("pass")[0], id="speed.launch", metrics={"launch_us": 3, "batch": 8, "gb_s": "inf"})
    report = VerifyReport("speed", "/p", (fast,), {"version": "2.13"}, {"name": "a GPU"})
    made = Baseline("a GPU", "2.13", {"speed.launch": {"launch_us": 3.0}})
    assert baseline.of_report(report) == made
    baseline.update(report, path)
    assert baseline.read(path) == replace(made, operators=cells)
    baseline.update(replace(report, checks=()), path)
    assert baseline.read(path) == replace(made, operators=cells)
    baseline.update(replace(report, checks=(), device={"name": "another"}), path)
    assert baseline.read(path) == Baseline("another", "2.13")
    baseline.update(report, tmp_path / "new.json")
    assert baseline.read(tmp_path / "new.json") == made


def _distribution(folder: Path, name: str, version: str, *requires: str) -> None:
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {one}" for one in requires)]
    metadata.write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")


def test_which_triton_is_installed_and_which_one_torch_requires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert (triton_pairing.distributions(), triton_pairing.pinned()) == ({}, {})
    _distribution(tmp_path, "pytorch-triton-xpu", "3.5.0")
    _distribution(tmp_path, "triton", "3.4.0")
    _distribution(
        tmp_path, "torch", "2.13.0", "pytorch_triton_xpu==3.5.0 ; platform_system == 'Linux'",
        "triton (==3.4.0)", "numpy==1.0", "triton-xpu>=3", "triton-xpu==9 ; extra == 'optional'",
    )  # fmt: skip
    installed = {"triton": "3.4.0", "pytorch-triton-xpu": "3.5.0"}
    assert (triton_pairing.distributions(), triton_pairing.pinned()) == (installed, installed)


def test_lanes_run_beside_each_other_and_the_log_has_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    target = FakeTarget(tmp_path / "env", {"model.resnet_block": "crash"})
    known = sorted(check.id for check in select(device="xpu", suite="full"))
    groups = ("operators", "ops", "model")
    names = [next(name for name in known if name.startswith(f"{group}.")) for group in groups]
    report = run_suite(
        target.python, device="xpu", env=base_environment(), work=tmp_path / "w", only=names, suite="full"
    )
    log = (tmp_path / "w" / "verify.log").read_text()
    for name in names:
        assert f"output of {name}\n" in log
        assert (tmp_path / "w").joinpath(f"{name.partition('.')[0]}.log").is_file()
    assert [check.id for check in report.checks if check.id in names] == names
    assert {check.status for check in report.checks} == {"pass"}


# ---- The catalogue of checks, and the rules that the suite's sources keep


SOURCES = sorted(suite_dir().glob("*.py"))
OURS = {path.stem for path in SOURCES}


@pytest.mark.parametrize("part", registry.PARTS)
def test_a_required_part_brings_its_checks_along(part: str) -> None:
    before = {check.id for check in select(device="cpu", suite="smoke", only=["import.torch"])}
    after = {check.id for check in select(device="cpu", suite="smoke", only=["import.torch"], require=[part])}
    added = after - before - {"device.availability", "device.properties"}
    assert added
    assert len({name.partition(".")[0] for name in added}) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"device": "tpu"}, ["device 'tpu'", "xpu, cuda, cpu"]),
        ({"suite": "everything"}, ["suite 'everything'", "smoke, full"]),
        ({"only": ["aten.nothing"]}, ["no check matches 'aten.nothing'", "verify --list"]),
        ({"require": ["nonsense"]}, ["part 'nonsense'", "ops, vision, audio, triton, ipex"]),
        ({"skip": ["aten.nothing"]}, ["no check matches 'aten.nothing'"]),
        ({"only": ["aten"], "skip": ["aten"]}, ["no checks are left"]),
        ({"require": ["ops"], "skip": ["ops.import"]}, ["exclude each other", "ops.import"]),
    ],
)
def test_what_cannot_be_selected_is_a_usage_error(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        select(**{"device": "cpu", "suite": "smoke", **given})
    assert all(word in str(caught.value.to_json()) for word in words)


def test_a_skipped_check_takes_along_what_only_it_needs() -> None:
    ids = [c.id for c in select(device="cpu", suite="smoke", only=["ops.swiglu_forward", "aten.sort"],
                                skip=["ops.swiglu_forward"])]  # fmt: skip
    assert ids == ["import.torch", "device.availability", "aten.sort"]
    left = {c.id for c in select(device="cpu", suite="smoke", skip=["device"])}
    assert "aten.sort" in left
    assert not {name for name in left if name.startswith("device.")}


def _imports(tree: ast.AST) -> list[tuple[str, int]]:
    """Return (top-level package, relative level) of every import."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name.partition(".")[0], 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found += [(name.partition(".")[0], node.level) for name in names]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_suite_needs_the_standard_library_and_torch_only(path: Path) -> None:
    """The interpreter that runs it has no xpubuild: an absolute import of it would work only where it is."""
    for name, level in _imports(ast.parse(path.read_text("utf-8"))):
        if level:
            assert name in OURS
        else:
            assert name in sys.stdlib_module_names or name in TARGET_PACKAGES, name


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_suite_parses_with_the_oldest_python_of_a_target(path: Path) -> None:
    ast.parse(path.read_text("utf-8"), feature_version=(3, 9))


# ---- What verify refuses before its first check, and the command that runs failing checks again


def test_a_place_where_no_report_can_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    report = VerifyReport("smoke", "/p", ())
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "r.xml", Path("/proc/r.json")):
        writing = partial(write_reports, report, json_file=None, junit_file=path)
        for act in (partial(require_places, None, path), writing):
            with pytest.raises(ToolchainError) as caught:
                act()
            assert str(path) in f"{caught.value.what} {caught.value.why}"
            assert caught.value.fix
    require_places(tmp_path / "new" / "r.json", None)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_baseline_to_update_must_be_usable_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "baseline.json"
    assert baseline.before(None, update=False) is None
    assert baseline.before(path, update=True) is None
    path.write_text("{")
    for update in (True, False):
        with pytest.raises(UsageError, match="cannot be used as a baseline") as caught:
            baseline.before(path, update=update)
        assert caught.value.fix.startswith("use another file, or remove this one")
    baseline.write(Baseline("a GPU", "2.12"), path)
    assert baseline.before(path, update=True) is None
    assert baseline.before(path, update=False) == Baseline("a GPU", "2.12")


def test_the_command_that_runs_failing_checks_again_has_the_options_of_the_run() -> None:
    report = VerifyReport(
        "operators", "/p", (CheckResult("a.c0", "title", "a", "fail", 1.5, "wrong"),), device={"type": "cpu"}
    )
    (command,) = failure(report, (), ["--operators", "add,mul", "--results", "/w s"]).commands
    words = (
        "--python /p --device cpu --suite operators --operators add,mul --results '/w s' --only a.c0 --json"
    )
    assert command == f"xpubuild verify {words}"


def test_the_stand_in_is_for_xpu_alone_and_for_a_torch_that_has_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--stand-in is for --device xpu, not cpu"):
        resolve_target(sys.executable, None, "cpu", stand_in=True)
    python = script(tmp_path / "python", 'echo \'{"torch": "2.13.0+cpu", "prefix": "/e", "xpu": false}\'')
    with pytest.raises(UsageError, match="--stand-in needs a torch for XPU") as caught:
        resolve_target(str(python), None, None, stand_in=True)
    assert "2.13.0+cpu, which was built without XPU" in caught.value.why
    assert "--device cpu" in caught.value.fix
    assert not resolve_target(str(python), None, None).stand_in


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--minutes", "1"), "--minutes has no effect without --suite operators"),
        (("--no-gpu", "--suite", "full"), "--suite has no effect with --no-gpu"),
        (("--no-gpu", "--results", "/tmp"), "--results has no effect"),
        (("--only", ","), "--only is empty"),
        (("--update-baseline",), "--update-baseline needs --baseline FILE"),
    ],
)
def test_options_without_effect_are_refused(xpubuild: Xpubuild, words: tuple[str, ...], told: str) -> None:
    result = xpubuild("verify", "--python", sys.executable, "--device", "cpu", *words)
    assert (result.status, told in result.err) == (2, True), result.err


def test_a_report_that_cannot_be_written_ends_before_the_first_check(xpubuild: Xpubuild) -> None:
    result = xpubuild("verify", "--python", sys.executable, "--device", "cpu", "--junit", "/proc/x.xml")
    assert result.status == 40
    assert "/proc/x.xml cannot be written" in result.err
    assert "import.torch" not in result.err


# ---- The report: its document, its JUnit form, and the records it is made of


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
    assert (report.status, error.exit_code) == ("fail", 70)
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
    assert failure.get("message") == "off by <5> & more"
    assert "red ?[31mline" in str(failure.text)
    assert [e.get("type") for e in root.iter("error")] == ["crash", "timeout"]
    properties = {item.get("name"): item.get("value") for item in root.iter("property")}
    assert properties == {"torch.version": "2.13.0", "device.type": "cpu", "error": "1e-07"}
    assert (root.get("time"), root[0].get("time")) == ("2.000", "1.750")


# ---- Which groups of checks run beside each other, and that none waits for one of another lane


FULL = [group for group in GROUPS if group not in ("image", "database")]


def test_groups_that_compute_run_beside_each_other_and_speed_alone() -> None:
    steps = turns(FULL, "xpu", 16)
    assert steps[-1] == [["speed"]]
    assert steps[-2] == [list(lane) for lane in LANES]
    assert [lanes[0] for lanes in steps[:-2]] == [["import"], ["device"], ["runtime"], ["aten"], ["onednn"]]
    assert sorted(group for lanes in steps for lane in lanes for group in lane) == sorted(FULL)


def test_on_a_cpu_or_with_few_cores_groups_follow_each_other() -> None:
    alone = [[[group]] for group in FULL]
    assert turns(FULL, "cpu", 64) == alone
    assert turns(FULL, "cuda", 4) == alone
    assert turns(["import", "database"], "cuda", 64) == [[["import"]], [["database"]]]

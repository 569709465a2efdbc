"""What stands around the checks, as whole objects: target, options, errors, reports, baselines, a tree."""

from __future__ import annotations

import ast
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.fake_target import FakeTarget
from support.releases import TARGET_PACKAGES

from xpubuild.engine.environment import base_environment
from xpubuild.errors import UsageError, XpuBuildError
from xpubuild.resources import suite_dir
from xpubuild.verify import baseline
from xpubuild.verify.baseline import Baseline
from xpubuild.verify.catalogue import select
from xpubuild.verify.harness import run_suite
from xpubuild.verify.model import CheckResult, VerifyReport
from xpubuild.verify.reports import failure
from xpubuild.verify.suite import registry, triton_pairing
from xpubuild.verify.target import Target, resolve_target


def told(error: XpuBuildError) -> tuple[Any, ...]:
    """Return all that the user reads of an error."""
    return (type(error), error.what, error.why, error.fix, tuple(error.commands), error.evidence)


DECIDING = {
    "ZE_AFFINITY_MASK": "0",
    "CUDA_VISIBLE_DEVICES": "1",
    "LD_LIBRARY_PATH": "/lib",
    "OMP_NUM_THREADS": "2",
}


def test_an_interpreter_keeps_what_decides_about_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "bin" / "some-python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
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
    assert error is not None
    bad = [f"a.c{number}" for number in range(1, 7)]
    said = [f"a.c{number} (fail): detail {number}" for number in range(1, 5)]
    assert told(error)[1:] == (
        "6 of 8 checks failed",
        "; ".join([*said, "a.c5 (crash): detail 5", "and 1 more"]),
        "run only the failing checks to see their complete output",
        ("xpubuild verify --workspace '/w s' --device xpu --suite full --only a.c1,a.c2,a.c3 --json",),
        {"failed": bad},
    )  # fmt: skip
    five = failure(replace(report, checks=results(*["fail"] * 5)))
    assert five is not None
    assert "more" not in five.why
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
    names = ["operators.pointwise", "ops.import", "model.resnet_block"]
    known = {check.id for check in select(device="xpu", suite="full")}
    names = [
        next(name for name in sorted(known) if name.startswith(f"{one.partition('.')[0]}.")) for one in names
    ]
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


@pytest.mark.parametrize(
    ("device", "suite", "only", "words"),
    [
        ("tpu", "smoke", (), ["device 'tpu'", "xpu, cuda, cpu"]),
        ("cpu", "everything", (), ["suite 'everything'", "smoke, full"]),
        ("cpu", "smoke", ("aten.nothing",), ["no check matches 'aten.nothing'", "verify --list"]),
    ],
)
def test_unknown_names_are_usage_errors(
    device: str, suite: str, only: tuple[str, ...], words: list[str]
) -> None:
    with pytest.raises(UsageError) as caught:
        select(device=device, suite=suite, only=only)
    text = str(caught.value.to_json())
    assert all(word in text for word in words)


@pytest.mark.parametrize("part", registry.PARTS)
def test_a_required_part_brings_its_checks_along(part: str) -> None:
    before = {check.id for check in select(device="cpu", suite="smoke", only=["import"])}
    after = {check.id for check in select(device="cpu", suite="smoke", only=["import"], require=[part])}
    added = after - before - {"device.availability", "device.properties"}
    assert added
    assert len({name.partition(".")[0] for name in added}) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"require": ["nonsense"]}, ["part 'nonsense'", "ops, vision, audio, triton"]),
        ({"skip": ["aten.nothing"]}, ["no check matches 'aten.nothing'"]),
        ({"only": ["aten"], "skip": ["aten"]}, ["no checks are left"]),
        ({"require": ["ops"], "skip": ["ops.import"]}, ["exclude each other", "ops.import"]),
    ],
)
def test_parts_and_skipped_checks_that_cannot_be(given: dict[str, list[str]], words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        select(device="cpu", suite="smoke", **given)
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
    for name, level in _imports(ast.parse(path.read_text("utf-8"))):
        if level:
            assert name in OURS
        else:
            assert name in sys.stdlib_module_names or name in TARGET_PACKAGES, name


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_suite_parses_with_the_oldest_python_of_a_target(path: Path) -> None:
    ast.parse(path.read_text("utf-8"), feature_version=(3, 9))

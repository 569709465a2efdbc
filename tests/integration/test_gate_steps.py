"""Which steps are watched, and what a plan for XPU proves more."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from integration.torch_env import TORCH, TorchEnv

from xpubuild.artifacts.gate_watcher import WatchStep
from xpubuild.artifacts.step_proofs import XpuInstalledProof, XpuWheelProof
from xpubuild.artifacts.xpu_gate import StepWatcher
from xpubuild.engine.model import Plan, Stop
from xpubuild.errors import BuildError, NoSpaceError, NoXpuError
from xpubuild.install.options import Options
from xpubuild.install.resolve import prepare


def plan_of(recipe: str, **options: object) -> Plan:
    return prepare(Options(recipe=recipe, **options)).plan  # type: ignore[arg-type]


@pytest.fixture
def for_xpu(tmp_path: Path) -> Plan:
    root = standin.build_root(tmp_path / "oneapi")
    return plan_of("2.8", oneapi_root=root, workspace=tmp_path / "ws", arch=("pvc", "bmg"), with_=("ops",))


def watch_of(plan: Plan, step: str) -> WatchStep:
    watch = plan.step(step).watch
    assert isinstance(watch, WatchStep)
    return watch


def test_pytorch_for_xpu_has_the_gate_and_the_proofs(for_xpu: Plan) -> None:
    watch = watch_of(for_xpu, "torch.wheel")
    assert watch.expected is not None
    assert watch.expected.release == "2.8.0"
    assert watch.expected.switches["USE_XPU"] == "1"
    assert watch.expected.switches["TORCH_XPU_ARCH_LIST"] == "pvc,bmg"
    assert watch.expected.source.endswith("/src/torch")
    assert any(isinstance(proof, XpuWheelProof) for proof in for_xpu.step("torch.wheel").proofs)
    (proof,) = (p for p in for_xpu.step("torch.install").proofs if isinstance(p, XpuInstalledProof))
    assert proof.arch == ("pvc", "bmg")
    assert "CMPLR_ROOT" in proof.env


def test_builds_and_tools_are_watched_and_checkouts_are_not(for_xpu: Plan) -> None:
    for step in ("toolchain", "torch.wheel", "torch.install", "ops.wheel"):
        assert watch_of(for_xpu, step).xpu
    assert watch_of(for_xpu, "ops.wheel").expected is None
    assert for_xpu.step("torch.source").watch is None
    assert for_xpu.step("verify").watch is None


def test_for_the_cpu_there_is_no_gate(tmp_path: Path) -> None:
    plan = plan_of("2.8", target="cpu", workspace=tmp_path / "ws")
    watch = watch_of(plan, "torch.wheel")
    assert not watch.xpu
    assert stops(watch(), "$ env CC=gcc pip wheel .", FALL_BACK, "--   USE_XPU : OFF") == []
    proofs = [proof for step in plan.steps for proof in step.proofs]
    assert not any(isinstance(proof, (XpuWheelProof, XpuInstalledProof)) for proof in proofs)


def stops(watcher: StepWatcher, *lines: str) -> list[Stop]:
    found = [item for number, line in enumerate(lines, 1) for item in watcher.line(line, number)]
    return [item for item in found if isinstance(item, Stop)]


FALL_BACK = "Not compiling with XPU. Could NOT find SYCL"


def test_a_fall_back_nobody_minds_goes_on() -> None:
    watcher = WatchStep(xpu=False)()
    assert stops(watcher, "$ env CC=gcc pip wheel .", FALL_BACK, "--   USE_XPU : OFF") == []
    error = watcher.explain(BuildError("failed"))
    assert error.likely_cause() == ""


def test_a_component_that_wanted_xpu_stops_by_what_explain_knows() -> None:
    (stop,) = stops(WatchStep(xpu=True)(), "$ pip wheel .", FALL_BACK)
    assert isinstance(stop.error, NoXpuError)
    assert stop.error.evidence["lines"] == [{"line": 2, "text": FALL_BACK}]


def test_a_full_disk_ends_a_build_at_once() -> None:
    (stop,) = stops(WatchStep(xpu=False)(), "cc1plus: fatal error: x.s: No space left on device")
    assert isinstance(stop.error, NoSpaceError)
    assert stop.error.commands


def test_a_failure_carries_its_explanation() -> None:
    watcher = WatchStep(xpu=False)()
    line = "ImportError: libsycl.so.8: cannot open shared object file: No such file or directory"
    assert stops(watcher, line) == []
    error = watcher.explain(BuildError("failed"))
    assert error.explanation is not None
    assert error.explanation["schema"] == "xpubuild.explain/1"
    assert error.explanation["findings"][0]["line"] == 1
    assert "libsycl" in error.explanation["first_error"]["text"]


def test_a_real_torch_for_the_cpu_is_refused(torch_env: TorchEnv) -> None:
    with pytest.raises(NoXpuError) as caught:
        XpuInstalledProof(str(torch_env.python), ("pvc",)).check()
    assert caught.value.exit_code == 53
    assert TORCH in caught.value.what
    assert "not compiled for XPU" in caught.value.what

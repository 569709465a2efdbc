"""How much memory a compilation is admitted with, and which builds get the launcher."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.plan_files import plan_for, target_for
from support.releases import recipe_of

from xpubuild.engine.admit import Setting, at_once
from xpubuild.engine.model import Command, Plan
from xpubuild.install.build_jobs import _can_wait, has_launcher
from xpubuild.install.choose import choose
from xpubuild.install.options import Options
from xpubuild.install.target import Admission
from xpubuild.machine.jobs import LargeUnit, plan_jobs

GIB = 1 << 30
SPACE = "/somewhere/work"
TEXT = f"""\
budget {16 * GIB}
jobs 8
ledger /cache/ledger
group no
learned /cache/memory/torch
root /w
default {4 * GIB}
prior {9 * GIB} flash_attn
prior {GIB} third_party/
"""


def test_what_was_learned_goes_before_a_prior_and_a_prior_before_the_default() -> None:
    setting = Setting(TEXT)
    assert setting.predicted("build/flash_attn/third_party/a.cpp.o", 0) == 9 * GIB
    assert setting.predicted("build/third_party/a.cpp.o", 0) == GIB
    assert setting.predicted("build/a.cpp.o", 0) == 4 * GIB
    assert GIB < setting.predicted("build/flash_attn/a.cpp.o", GIB) < 1.2 * GIB
    link = at_once(["icx", "-fsycl-link", "-fsycl-max-parallel-link-jobs=3", "a.o", "-o", "device.o"])
    assert setting.predicted("build/third_party/device.o", 0, link) == 3 * GIB
    assert GIB < setting.predicted("build/third_party/device.o", GIB, link) < 1.2 * GIB


@pytest.mark.parametrize(
    ("cores", "memory", "requested", "expected"),
    [
        # Enough for all: nobody waits.
        (8, 64 * GIB, "auto", (8, None, 0)),
        (32, 64 * GIB, "auto", (32, 64 * GIB - 64 * GIB // 20, 16)),
        (4, 8 * GIB, "auto", (4, 7 * GIB, 2)),
        (4, GIB, "auto", (4, GIB // 2, 1)),
        (4, 64 * GIB, 32, (32, 64 * GIB - 64 * GIB // 20, 16)),
        (4, None, "auto", (4, None, 0)),
        (4, 64 * GIB, 2, (2, None, 0)),
    ],
)
def test_memory_does_not_limit_jobs_that_can_wait(
    cores: int, memory: int | None, requested: int, expected: tuple[int, int | None, int]
) -> None:
    plan = plan_jobs(cores, memory, requested, 4 * GIB, can_wait=True)
    assert (plan.jobs, plan.budget_bytes, plan.other_jobs) == expected
    assert ("compilers wait for memory" in plan.reason) == (plan.budget_bytes is not None)


def test_one_large_unit_alone_is_a_reason_to_wait() -> None:
    flash = LargeUnit("flash attention", 2 * GIB, 40 * GIB)
    plan = plan_jobs(2, 30 * GIB, "auto", 2 * GIB, flash, can_wait=True)
    assert (plan.jobs, plan.other_jobs) == (2, 1)
    assert plan.reason == (
        "2 of 2 cores; compilers wait for memory, 28.5 GiB for all, and may still run out of it: the largest"
        " needs 40 GiB (flash attention)"
    )


ADMISSION = Admission(8 * GIB, own_group=True, other_jobs=3, program="text of the launcher\n")


def planned(waits: bool, workspace: str = SPACE, **asked: object) -> Plan:
    facts = {"admission": ADMISSION if waits else None}
    return plan_for("2.13", facts=facts, workspace=workspace, **asked)


def build_of(plan: Plan, step: str) -> Command:
    return plan.step(step).commands[-1]


def test_compilers_of_torch_wait_and_those_of_others_are_fewer() -> None:
    plan = planned(True, with_=("vision",))
    told = build_of(plan, "torch.wheel").tuning
    assert told["MAX_JOBS"] == told["CMAKE_BUILD_PARALLEL_LEVEL"] == "18", "those that wait are no jobs"
    names = [f"CMAKE_{of}_{kind}_LAUNCHER" for of in ("C", "CXX") for kind in ("COMPILER", "LINKER")]
    assert {told[name] for name in names} == {f"{SPACE}/build/launcher/launch"}
    assert told["XPUBUILD_ADMIT"] == f"{SPACE}/build/launcher/torch.txt"
    assert plan.step("torch.wheel").memory_bytes == 8 * GIB
    other = build_of(plan, "vision.wheel").tuning
    assert other["MAX_JOBS"] == "3"
    assert not {"XPUBUILD_ADMIT", "CMAKE_CXX_COMPILER_LAUNCHER"} & other.keys()
    assert plan.files[f"{SPACE}/build/launcher/admit.py"] == ADMISSION.program
    setting = Setting(plan.files[told["XPUBUILD_ADMIT"]])
    assert (setting.budget, setting.jobs, setting.group, setting.default) == (8 * GIB, 6, True, 4 * GIB)


def test_waiting_changes_no_fingerprint_and_no_command_of_the_build() -> None:
    with_it, without = planned(True), planned(False)
    assert with_it.fingerprints == without.fingerprints
    assert with_it.lock_digest == without.lock_digest
    told = build_of(without, "torch.wheel").tuning
    # ninja compiles everything again when a launcher comes or goes.
    waiting = {**build_of(with_it, "torch.wheel").tuning}
    del waiting["XPUBUILD_ADMIT"]
    assert waiting == {**told, "MAX_JOBS": "18", "CMAKE_BUILD_PARALLEL_LEVEL": "18"}
    assert "CMAKE_CXX_COMPILER_LAUNCHER" in told
    assert "XPUBUILD_ADMIT" not in told
    assert f"{SPACE}/build/launcher/admit.py" not in without.files


@pytest.mark.parametrize(("text", "waits"), [("", True), ("/build/launcher/launch", True), ("other", False)])
def test_a_tree_that_was_configured_without_the_launcher_does_not_wait(
    tmp_path: Path, text: str, waits: bool
) -> None:
    choice = choose(Options(None, tmp_path, target="cpu"), recipe_of("2.13"))
    cache = tmp_path / "src" / "torch" / "build" / "CMakeCache.txt"
    if text:
        cache.parent.mkdir(parents=True)
        cache.write_text(f"CMAKE_CXX_COMPILER_LAUNCHER:STRING={tmp_path}{text}\n")
    assert _can_wait(choice) == waits


def test_a_build_with_a_launcher_or_sycl_compiler_of_its_own_keeps_it() -> None:
    target = target_for("2.8", workspace="/somewhere")
    assert has_launcher(target, "torch")
    for own in ({"USE_CCACHE": "1"}, {"XPU_SYCL_COMPILER": "dpclang"}):
        changed = replace(target, switches={"torch": {**target.switches.get("torch", {}), **own}})
        assert not has_launcher(changed, "torch"), own

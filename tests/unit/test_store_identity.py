"""The build identity: the same wherever a wheel is built, another one for everything that decides it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from support.plan_files import PLANS, plan_for

from xpubuild.engine.model import Plan
from xpubuild.install.target import Compilers
from xpubuild.supply.depot.record import build_inputs, identity

MACHINE: Mapping[str, Any] = {
    "platform": "x86_64 glibc 2.36",
    "compilers": {"cc1plus": "a" * 64, "libgmp.so.10": "b" * 64},
    "cpu": ["avx", "avx2"],
}
ELSEWHERE = "/home/somebody/build it"


def places(plan: Plan) -> dict[str, str]:
    return {
        plan.workspace: "{workspace}",
        quote(plan.workspace): "{workspace}",
        "/somewhere/cache": "{cache}",
        "/usr/bin/python3.12": "{python}",
        "/usr/bin/gcc": "{cc}",
        "/usr/bin/g++": "{cxx}",
    }


def of(plan: Plan, step: str = "ops.wheel", machine: Mapping[str, Any] = MACHINE) -> dict[str, Any]:
    return build_inputs(plan, step, step.partition(".")[0], machine, places(plan))


def of_quickstart(**asked: Any) -> dict[str, Any]:
    return of(plan_for("quickstart", **asked))


@pytest.mark.parametrize("name", ["2.13-cpu-waiting-ccache", "2.14-xpu-triton"])
def test_no_identity_names_a_folder_of_the_workspace_or_the_cache(name: str) -> None:
    plan = PLANS[name]()
    for step in plan.steps:
        if step.id.endswith(".wheel"):
            text = json.dumps(of(plan, step.id))
            assert "/somewhere/my" not in text
            assert "/somewhere/cache" not in text


def test_folder_jobs_mirror_and_interpreter_do_not_change_it() -> None:
    wanted = identity(of_quickstart())
    assert identity(of_quickstart(workspace=ELSEWHERE)) == wanted
    assert identity(of_quickstart(facts={"jobs": 96})) == wanted
    assert identity(of(plan_for("quickstart"))) == wanted
    plan = plan_for("quickstart", facts={"python": "/opt/py/bin/python3", "cache": Path("/scratch/me")})
    names = {**places(plan), "/opt/py/bin/python3": "{python}", "/scratch/me": "{cache}"}
    assert identity(build_inputs(plan, "ops.wheel", "ops", MACHINE, names)) == wanted
    # The fingerprint, which names the folder, does change.
    one, other = plan_for("quickstart"), plan_for("quickstart", workspace=ELSEWHERE)
    assert one.fingerprints["ops.wheel"] != other.fingerprints["ops.wheel"]


def changed_requirement() -> dict[str, Any]:
    plan = plan_for("quickstart")
    (torch,) = (step for step in plan.steps if step.id == "torch")
    assert torch.relevant
    other = replace(torch, relevant={"requirements": "f" * 64})
    steps = tuple(other if step.id == "torch" else step for step in plan.steps)
    return of(replace(plan, steps=steps))


@pytest.mark.parametrize(
    "inputs",
    [
        of(plan_for("quickstart"), machine={**MACHINE, "cpu": ["avx"]}),
        of(plan_for("quickstart"), machine={**MACHINE, "compilers": {"cc1plus": "c" * 64}}),
        changed_requirement(),
        of_quickstart(
            facts={"compilers": Compilers("/usr/bin/gcc", "/usr/bin/g++", "12", {"cc": "gcc 12"}, "gcc")}
        ),
        of_quickstart(facts={"python_version": "3.12.5"}),
    ],
    ids=["cpu", "compiler", "requirement", "release of gcc", "python"],
)
def test_what_decides_the_wheel_changes_it(inputs: dict[str, Any]) -> None:
    assert identity(inputs) != identity(of_quickstart())


def test_switches_abi_and_aot_targets_of_what_it_rests_on_count() -> None:
    def of_vision(**asked: Any) -> dict[str, Any]:
        return of(plan_for("2.13", oneapi="2025.3", with_=("vision",), **asked), "vision.wheel")

    one = of_vision(arch=("pvc",))
    assert identity(of_vision(arch=("pvc",), workspace=ELSEWHERE)) == identity(one)
    others = [of_vision(arch=("bmg",)), of_vision(arch=("pvc",), variant="minimal")]
    assert len({identity(item) for item in (one, *others)}) == 3


def test_a_path_that_only_begins_alike_stays() -> None:
    plan = plan_for("quickstart")
    (built,) = (step for step in plan.steps if step.id == "ops.wheel")
    command = replace(
        built.commands[-1], env={"CC": "/usr/bin/gcc-12", "W": f"{plan.workspace}2:{plan.workspace}/x"}
    )
    steps = tuple(
        replace(step, commands=(command,)) if step.id == "ops.wheel" else step for step in plan.steps
    )
    found = of(replace(plan, steps=steps))["steps"]["ops.wheel"]["commands"][0]["env"]
    assert found == {"CC": "/usr/bin/gcc-12", "W": f"{plan.workspace}2:{{workspace}}/x"}

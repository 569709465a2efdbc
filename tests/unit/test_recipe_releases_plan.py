"""A plan of every release whose commit is known."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.plan_files import plan_for
from support.releases import EVERY, recipe_of, source

from xpubuild.engine.model import Plan


def plan_of(name: str, oneapi: bool = True) -> Plan:
    recipe = recipe_of(name).recipe
    optional = tuple(key for key in ("vision", "audio") if key in recipe.components)
    low = re.search(r">=([\d.]+)", recipe.needs.oneapi or "")
    assert low is not None
    asked: dict[str, Any] = {"with_": optional if name != "main" else (), "variant": "full"}
    return plan_for(name, oneapi=low[1] if oneapi else None, **asked)


@pytest.mark.parametrize("name", [name for name in EVERY if source(recipe_of(name).recipe, "torch").commit])
def test_every_release_with_a_known_commit_is_planned_for_xpu(name: str) -> None:
    plan = plan_of(name)
    steps = [step.id for step in plan.steps]
    assert steps[-1] == "verify"
    chosen = {"torch", "vision", "audio"}
    assert [step for step in steps if step.endswith(".wheel")] == [
        f"{key}.wheel" for key in recipe_of(name).recipe.components if key in chosen
    ]
    (wheel,) = (step for step in plan.steps if step.id == "torch.wheel")
    env = next(command.env for command in wheel.commands if "USE_XPU" in command.env)
    assert (env["USE_XPU"], env["TORCH_XPU_ARCH_LIST"], env["USE_MKLDNN"]) == ("1", "pvc", "1")
    assert env["PYTORCH_BUILD_VERSION"] == name
    assert "USE_XCCL" not in env or env["USE_XCCL"] == "1"


@pytest.mark.parametrize("name", ["2.4.1", "2.6.0", "2.13.0"])
def test_the_same_release_is_planned_for_the_cpu(name: str) -> None:
    plan = plan_of(name, oneapi=False)
    (wheel,) = (step for step in plan.steps if step.id == "torch.wheel")
    env = next(command.env for command in wheel.commands if "USE_XPU" in command.env)
    assert env["USE_XPU"] == "0"
    assert env.get("USE_XCCL", "0") == env.get("USE_ONEMKL_XPU", "0") == "0"

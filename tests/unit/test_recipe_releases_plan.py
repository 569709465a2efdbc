"""A plan of every release whose commit is known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.plans import plan_of
from support.releases import EVERY, recipe_of, source

from xpubuild.install.planner import requirement_names
from xpubuild.install.request import Choice, Compilers, Facts, OneapiFacts, Request
from xpubuild.recipe.load import requirement_file
from xpubuild.recipe.situation import Situation


def request_for(name: str, *, target: str = "xpu") -> tuple[Request, Facts]:
    loaded = recipe_of(name)
    optional = tuple(key for key in ("vision", "audio") if key in loaded.recipe.components)
    request = Request(
        loaded,
        Path("/somewhere/space"),
        with_=optional if name != "main" else (),
        target="xpu" if target == "xpu" else "cpu",
        variant="full",
    )
    every = Choice(request.target or "xpu", 1, tuple(loaded.recipe.components), "full", ("pvc",), {})
    low = re.search(r">=([\d.]+)", loaded.recipe.needs.oneapi or "")
    assert low is not None
    facts = Facts(
        python="/usr/bin/python3.12",
        python_version="3.12.3",
        compilers=Compilers("/usr/bin/gcc", "/usr/bin/g++", "13.2.0"),
        jobs=4,
        jobs_reason="asked for",
        cache=Path("/cache"),
        requirements={
            file: requirement_file(loaded, file).read_text("utf-8")
            for file in requirement_names(request, every)
        },
        oneapi=OneapiFacts() if target == "xpu" else None,
        situation=Situation(
            target="xpu" if target == "xpu" else "cpu",
            gpu="max",
            driver="rolling",
            oneapi=(low[1],),
            python=("3.12.3",),
            gcc="13.2.0",
            host_compiler="GNU",
        ),
    )
    return request, facts


@pytest.mark.parametrize("name", [name for name in EVERY if source(recipe_of(name).recipe, "torch").commit])
def test_every_release_with_a_known_commit_is_planned_for_xpu(name: str) -> None:
    request, facts = request_for(name)
    plan = plan_of(request, facts)
    steps = [step.id for step in plan.steps]
    assert steps[-1] == "verify"
    chosen = {"torch", "vision", "audio", "ops"}
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
    plan = plan_of(*request_for(name, target="cpu"))
    (wheel,) = (step for step in plan.steps if step.id == "torch.wheel")
    env = next(command.env for command in wheel.commands if "USE_XPU" in command.env)
    assert env["USE_XPU"] == "0"
    assert env.get("USE_XCCL", "0") == env.get("USE_ONEMKL_XPU", "0") == "0"

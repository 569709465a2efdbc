"""What is planned from: the host as a build sees it, all external inputs, and guesses of what steps take."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from support.plan_files import context_for
from unit.test_plan_resolved import FACTS, request

from xpubuild.engine.estimate import UNKNOWN, Estimate
from xpubuild.install import aot, estimate
from xpubuild.install.build_situation import of_request
from xpubuild.install.choose import choose
from xpubuild.install.estimate import Earlier, Known, estimates
from xpubuild.install.inputs import Archive, OpenWheel, Repository, inputs_of
from xpubuild.install.planner import make_context, make_plan, requirement_names
from xpubuild.install.request import OneapiFacts
from xpubuild.install.sharing import jobs_in
from xpubuild.recipe.situation import Situation

COMMIT = "4" * 40
HERE = Situation(
    gpu="max", gpu_targets=("pvc",), driver="rolling", oneapi=("2025.3",), gcc="9", python=("3.9",)
)


def test_a_build_sees_its_own_interpreter_compiler_and_oneapi() -> None:
    asked = replace(request(targets=["cpu", "xpu"]), target="xpu", arch=("pvc",), cxx11_abi=0)
    choice = choose(request())
    choice = replace(choice, target="xpu", arch=("pvc",))
    facts = replace(FACTS, situation=HERE)
    expected = replace(
        HERE, target="xpu", python=("3.11.7",), gcc="12.2", host_compiler="GNU", cxx11_abi=0, arch=("pvc",),
        components=("torch",),
    )  # fmt: skip
    assert of_request(asked, choice, facts) == expected
    other = of_request(replace(asked, arch=("bmg",)), choice, facts)
    assert other == replace(expected, gpu=None, driver=None), "it is built for another machine"
    both = of_request(replace(asked, arch=("bmg", "pvc")), choice, facts)
    assert (both.gpu, both.driver) == ("max", "rolling")
    parts = ({"name": "compiler", "version": "2025.1"}, {"name": "tbb", "version": "2022.0"})
    assert of_request(asked, choice, replace(facts, oneapi=OneapiFacts(components=parts))).oneapi == (
        "2025.1",
    )
    assert of_request(asked, choice, replace(facts, oneapi=OneapiFacts())).oneapi is None
    for kind, gcc, name in (("gcc", "12.2", "GNU"), ("clang", None, "Clang"), ("icx", None, "IntelLLVM")):
        compilers = replace(FACTS.compilers, kind=kind)
        found = of_request(asked, choice, replace(facts, compilers=compilers, situation=None))
        assert (found.gcc, found.host_compiler, found.oneapi, found.gpu) == (
            gcc,
            name,
            Situation().oneapi,
            None,
        )
    assert of_request(request(), replace(choice, arch=()), facts).arch is None


def pinned(name: str, **more: Any) -> dict[str, Any]:
    source = {"url": f"https://host/{name}.git", "commit": COMMIT, **more.pop("source", {})}
    return {"kind": "source", "dist": name, "source": source, **more}


CLONED = [
    {"url": "https://host/a.git", "path": "a", "commit": COMMIT, "when": "always"},
    {"url": "https://host/b.git", "path": "b", "commit": COMMIT, "when": "xpu"},
]
ARCHIVES = {
    "z": {"variable": "Z", "url": "https://host/z.zip", "sha256": "5" * 64},
    "given": {"variable": "GIVEN", "url": "https://host/g.zip"},
    "open": {"variable": "OPEN"},
}
EVERY = {
    "torch": pinned("torch", source={"configure_time": CLONED}),
    "ops": {"kind": "source", "dist": "ops", "source": {"embedded": "ops", "commit": COMMIT}},
    "triton": pinned("triton", build={"archives": ARCHIVES, "env": {"GIVEN": "/g", "Z": ""}}),
    "wheel": {"kind": "wheel", "dist": "a-wheel", "version": "2", "indexes": ["https://host/i"]},
    "unused": {**pinned("unused"), "optional": True},
}


def test_every_external_input_is_named() -> None:
    for target, cloned in (("cpu", ["a"]), ("xpu", ["a", "b"])):
        asked = request(components=EVERY, targets=["cpu", "xpu"], target=target)
        found = inputs_of(make_context(asked, FACTS))
        torch, triton = found.repositories
        assert [(item.component, item.pin.url, item.pin.commit) for item in (torch, triton)] == [
            ("torch", "https://host/torch.git", COMMIT), ("triton", "https://host/triton.git", COMMIT),
        ]  # fmt: skip
        assert [item.path for item in torch.configure_time] == cloned
        assert triton.configure_time == Repository("triton", triton.pin).configure_time == ()
        assert [(item.component, item.pin.commit) for item in found.embedded] == [("ops", COMMIT)]
        assert (found.recipe, found.python_version, found.requirements) == ("mine", "3.11.7", ())
        assert found.wheels == (OpenWheel("wheel", "a-wheel", "2", ("https://host/i",)),)
        assert found.archives == (
            Archive("triton", "open", None),
            Archive("triton", "z", "https://host/z.zip", "5" * 64),
        )
        assert [item.key for item in found.archives] == ["triton.open", "triton.z"]


def test_requirement_files_come_with_the_indexes_of_their_wheels() -> None:
    context = context_for("quickstart")
    found = {item.name: item for item in inputs_of(context).requirements}
    assert tuple(found) == requirement_names(context.request, context.choice)
    assert {name: item.text for name, item in found.items()} == context.facts.requirements
    indexes = {name: item.indexes for name, item in found.items() if item.indexes}
    torch = context.component("torch")
    assert indexes == {torch.requirements: tuple(torch.indexes)}


COSTS = {
    "torch.wheel": {
        "minutes": 3,
        "core_minutes": {"cpu": 12, "xpu": 60},
        "download_mb": 1.5,
        "disk_mb": 2500,
    },
    "verify": {"minutes": 0.5},
    "torch.source": {"download_mb": 7},
}
FACTS_OF = {
    "costs.torch.wheel.core_minutes.cpu": {"source": "measured", "note": "", "confidence": "verified"}
}


def test_guesses_are_those_of_the_recipe_or_of_an_earlier_build() -> None:
    asked = request(components={"torch": pinned("torch")}, costs=COSTS, facts=FACTS_OF)
    context = make_context(asked, replace(FACTS, jobs=8, cores=4))
    plan = make_plan(context)
    assert estimates(context, plan, [step.id for step in plan.steps], Known()) == {
        "env": replace(UNKNOWN, download_bytes=0),
        "torch.source": Estimate(None, 7_000_000, None, "recipe"),
        "torch.wheel": Estimate(360.0, 0, 2_500_000_000, "recipe: measured, with 8 jobs on 4 cores"),
        "torch.install": replace(UNKNOWN, download_bytes=0),
        "verify": Estimate(30.0, 0, None, "recipe"),
    }
    before = Earlier("torch.wheel", "other", "", "", "ws", 100.0, 160.0, 2, disk_bytes=5)
    wheel = estimates(context, plan, ["torch.wheel"], Known([before], ["torch"]))["torch.wheel"]
    assert asdict(wheel) == asdict(
        Estimate(60.0, 0, 5, "earlier build in ws with 2 jobs, scaled to 8 jobs on 4 cores")
    )
    source = estimates(context, plan, ["torch.source"], Known([], ["torch"]))["torch.source"]
    assert source == Estimate(None, 0, None, "recipe")
    assert (estimate.side_by_side(3, None), estimate.side_by_side(3, 2), estimate.side_by_side(2, 3)) == (
        3,
        2,
        2,
    )
    assert [estimate._crowd(jobs, cores) for jobs, cores in ((2, None), (2, 2), (3, 2), (2, 1))] == [
        "", "", "3 jobs on 2 cores", "2 jobs on 1 core",
    ]  # fmt: skip


def test_numbers_of_jobs_are_read_of_what_builds_are_told() -> None:
    told = {"MAX_JOBS": "3", "CMAKE_BUILD_PARALLEL_LEVEL": "4"}
    assert (jobs_in(told), jobs_in({"CMAKE_BUILD_PARALLEL_LEVEL": "4"}), jobs_in({})) == (3, 4, None)
    assert [jobs_in({"MAX_JOBS": text}) for text in ("", "0", "1", "-1", "x", "\u0664", "\u00b2")] == [
        None, None, 1, None, None, None, None,
    ]  # fmt: skip


def test_targets_of_kernels_are_those_of_the_environment() -> None:
    assert [aot.wants_xpu({"USE_XPU": text}) for text in ("0", "OFF", "no", "1", "on")] == [False] * 3 + [
        True
    ] * 2
    assert aot.wants_xpu({})
    assert aot.targets_in({"TORCH_XPU_ARCH_LIST": " pvc, bmg;;dg2 "}) == ("pvc", "bmg", "dg2")
    assert aot.targets_in({}) == ()

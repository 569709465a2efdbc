"""Solver and planner against an oracle that reads ``needs`` straight, with numbers instead of parsers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plan_files import known_target

from xpubuild.errors import UnsatisfiableError
from xpubuild.install.choose import choose
from xpubuild.install.options import Options
from xpubuild.install.planner import make_plan
from xpubuild.install.target import Compilers, OneapiFacts
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.model import LoadedRecipe, Recipe
from xpubuild.recipe.releases import Release, releases
from xpubuild.recipe.situation import Situation, Verdict
from xpubuild.resources import recipes_dir

GPUS = ("max", "flex", "arc-a", "arc-b", "core-ultra", "panther-lake")
DRIVERS = ("lts-2350", "lts2-2523", "rolling")
NUMBERS = {"oneapi": (2024, 2027), "python": (3, 3), "gcc": (8, 15), "cmake": (3, 4)}
TORCH = {
    "kind": "source",
    "dist": "torch",
    "source": {"url": "https://example.invalid/torch.git", "commit": "a" * 40},
}


def versions(what: str) -> st.SearchStrategy[tuple[int, int, int]]:
    low, high = NUMBERS[what]
    return st.tuples(st.integers(low, high), st.integers(0, 15), st.integers(0, 3))


def text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@st.composite
def bounds(draw: st.DrawFn, what: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return clauses such as ('>=', (11, 3)); none is no demand."""
    clauses = draw(st.lists(st.tuples(st.sampled_from([">=", "<", ">", "<="]), versions(what)), max_size=2))
    return [(sign, number[: draw(st.integers(2, 3))]) for sign, number in clauses]


def specifier(clauses: list[tuple[str, tuple[int, ...]]]) -> str | None:
    return ",".join(sign + text(number) for sign, number in clauses) or None


def meets(version: tuple[int, ...], clauses: list[tuple[str, tuple[int, ...]]]) -> bool:
    def one(sign: str, bound: tuple[int, ...]) -> bool:
        bound = (*bound, 0, 0)[:3]
        return {">=": version >= bound, "<": version < bound, ">": version > bound, "<=": version <= bound}[
            sign
        ]

    return all(one(sign, bound) for sign, bound in clauses)


@st.composite
def needs(draw: st.DrawFn) -> dict[str, Any]:
    """Return what a recipe needs, as clauses."""
    return {
        **{what: draw(bounds(what)) for what in NUMBERS},
        "host_compiler": draw(st.sampled_from(["GNU", "any"])),
        "gpus": draw(st.lists(st.sampled_from(GPUS), unique=True)),
        "drivers": draw(st.lists(st.sampled_from(DRIVERS), unique=True)),
        "abi": draw(st.tuples(st.sampled_from([0, 1]), st.booleans())),
    }


@st.composite
def hosts(draw: st.DrawFn) -> dict[str, Any]:
    """Return a host that is known in all respects."""
    return {
        **{what: draw(versions(what)) for what in NUMBERS},
        "kind": draw(st.sampled_from(["gcc", "clang", "icx"])),
        "gpu": draw(st.sampled_from(GPUS)),
        "driver": draw(st.sampled_from(DRIVERS)),
        "abi": draw(st.sampled_from([None, 0, 1])),
        "target": draw(st.sampled_from(["xpu", "cpu"])),
    }


def recipe_of(wanted: dict[str, Any], **more: Any) -> Recipe:
    document = {
        "schema": 1,
        "name": "9.9",
        "title": "made up",
        "release": "9.9.0",
        "components": {"torch": TORCH},
        "needs": {
            "python": specifier(wanted["python"]) or ">=3.0",
            "gcc": specifier(wanted["gcc"]),
            "oneapi": specifier(wanted["oneapi"]),
            "host_compiler": wanted["host_compiler"],
            "gpus": wanted["gpus"],
            "drivers": wanted["drivers"],
        },
        "abi": {"default": wanted["abi"][0], "honoured": wanted["abi"][1]},
        **more,
    }
    return Recipe.model_validate(document)


def violations(wanted: dict[str, Any], host: dict[str, Any]) -> set[str]:
    """Return what a host breaks: no solver, no version library."""
    found = set()
    if not meets(host["python"], wanted["python"]):
        found.add("python")
    only_gcc = wanted["host_compiler"] == "GNU" and host["target"] == "xpu"
    if (wanted["gcc"] or only_gcc) and host["kind"] != "gcc":
        found.add("host_compiler")
    elif wanted["gcc"] and not meets(host["gcc"], wanted["gcc"]):
        found.add("gcc")
    default, honoured = wanted["abi"]
    if host["abi"] not in (None, default) and not honoured:
        found.add("cxx11_abi")
    if host["target"] == "xpu":
        if wanted["oneapi"] and not meets(host["oneapi"], wanted["oneapi"]):
            found.add("oneapi")
        if wanted["gpus"] and host["gpu"] not in wanted["gpus"]:
            found.add("gpu")
        if wanted["drivers"] and host["driver"] not in wanted["drivers"]:
            found.add("driver")
    return found


def situation_of(host: dict[str, Any]) -> Situation:
    gcc = host["kind"] == "gcc"
    return Situation(
        target=host["target"],
        gpu=host["gpu"],
        driver=host["driver"],
        oneapi=(text(host["oneapi"]),),
        python=(text(host["python"]),),
        gcc=text(host["gcc"]) if gcc else None,
        host_compiler={"gcc": "GNU", "clang": "Clang", "icx": "IntelLLVM"}[host["kind"]],
        cxx11_abi=host["abi"],
    )


@settings(max_examples=100, deadline=None)
@given(needs(), hosts())
def test_the_solver_says_no_exactly_where_a_constraint_is_broken(
    wanted: dict[str, Any], host: dict[str, Any]
) -> None:
    verdict = solve(recipe_of(wanted), situation_of(host))
    assert {reason.constraint for reason in verdict.against()} == violations(wanted, host)
    assert verdict.refused == bool(violations(wanted, host))


@settings(max_examples=60, deadline=None)
@given(needs(), hosts())
def test_the_planner_accepts_nothing_that_breaks_a_constraint(
    wanted: dict[str, Any], host: dict[str, Any]
) -> None:
    recipe = recipe_of(wanted)
    loaded = LoadedRecipe(recipe=recipe, path=Path("9.9.yaml"), folders=(), document={})
    abi = None if host["abi"] is None else str(host["abi"])
    options = Options(None, workspace=Path("/w"), target=host["target"], cxx11_abi=abi)
    facts = {
        "python_version": text(host["python"]),
        "compilers": Compilers("/usr/bin/cc", "/usr/bin/c++", text(host["gcc"]), kind=host["kind"]),
        "oneapi": OneapiFacts(components=({"name": "compiler", "version": text(host["oneapi"])},)),
        "situation": situation_of({**host, "abi": None}),
    }
    broken = violations(wanted, host)
    if broken:
        with pytest.raises(UnsatisfiableError):
            make_plan(known_target(choose(options, loaded), **facts))
    else:
        assert make_plan(known_target(choose(options, loaded), **facts)).steps


@settings(max_examples=60, deadline=None)
@given(needs(), hosts(), st.sampled_from(sorted(NUMBERS)), st.data())
def test_one_more_constraint_never_turns_a_no_into_a_yes(
    wanted: dict[str, Any], host: dict[str, Any], what: str, data: st.DataObject
) -> None:
    pythons = tuple(text(item) for item in data.draw(st.lists(versions("python"), max_size=3)))
    toolkits = tuple(text(item) for item in data.draw(st.lists(versions("oneapi"), max_size=3)))
    base = situation_of(host)
    situation = Situation(**{**vars(base), "python": pythons, "oneapi": toolkits})
    before = solve(recipe_of(wanted), situation)
    more = {**wanted, what: [*wanted[what], *data.draw(bounds(what))]}
    condition = {name: specifier(data.draw(bounds(name))) or ">=0" for name in ("gcc", "oneapi")}
    gpu = data.draw(st.sampled_from([None, *GPUS]))
    after = solve(recipe_of(more, refuses=[{"when": condition, "gpu": gpu, "why": "known"}]), situation)
    assert before.builds != "no" or after.builds == "no"
    assert before.runs != "no" or after.runs == "no"


@settings(max_examples=60, deadline=None)
@given(needs(), hosts(), st.sets(st.sampled_from(["gpu", "driver", "oneapi", "python", "gcc"])))
def test_what_is_not_known_is_never_a_yes(
    wanted: dict[str, Any], host: dict[str, Any], hidden: set[str]
) -> None:
    known = solve(recipe_of(wanted), situation_of(host))
    fields = {**vars(situation_of(host)), **dict.fromkeys(hidden)}
    if "gcc" in hidden:
        fields["host_compiler"] = None
    verdict = solve(recipe_of(wanted), Situation(**fields))
    # Knowing less may lose a no, never find a yes that knowing all denies.
    assert known.builds != "no" or verdict.builds != "yes"
    assert known.runs != "no" or verdict.runs != "yes"


WORDS = st.text(max_size=12)


@settings(max_examples=60, deadline=None)
@given(needs(), WORDS, WORDS, WORDS, st.lists(WORDS, max_size=2))
def test_odd_versions_do_not_make_it_raise(
    wanted: dict[str, Any], oneapi: str, python: str, gcc: str, arch: list[str]
) -> None:
    situation = Situation(
        oneapi=(oneapi,), python=(python, oneapi), gcc=gcc, arch=tuple(arch),
        components=("torch", gcc),
    )  # fmt: skip
    solve(recipe_of(wanted), situation)


# ---- The solver against a table of combinations, each with what it must say; the recipes are those that ship


TEXT = Path(__file__).with_name("constraints.yaml").read_text("utf-8")
TABLE = yaml.load(TEXT, yaml.BaseLoader)  # noqa: S506 - safe; keeps versions as text
FEWEST = 30
WISHES = {
    "release", "builds", "runs", "why", "says", "loses", "notes", "oneapi_used", "python_used", "source",
}  # fmt: skip


def rows() -> list[Any]:
    return [pytest.param(row, id=f"{row['release']}-{number}") for number, row in enumerate(TABLE["rows"])]


@pytest.fixture(scope="module")
def known() -> dict[str, Release]:
    return {release.version: release for release in releases(recipes_dir())}


def situation(row: dict[str, Any]) -> Situation:
    fields: dict[str, Any] = {name: value for name, value in row.items() if name not in WISHES}
    fields = {**TABLE["base"], **fields}
    fields = {name: None if value in ("null", "") else value for name, value in fields.items()}
    if "abi" in fields:
        fields["cxx11_abi"] = int(fields.pop("abi"))
    for name in ("oneapi", "python", "arch", "components", "ocloc_lacks"):
        if fields.get(name) is not None:
            fields[name] = tuple(fields[name])
    return Situation(**fields)


def named(verdict: Verdict, answer: str) -> set[str]:
    found = {"no": verdict.against(), "unknown": verdict.open_questions()}[answer]
    return {reason.constraint for reason in found}


@pytest.mark.parametrize("row", rows())
def test_the_verdict(row: dict[str, Any], known: dict[str, Release]) -> None:
    verdict = solve(known[row["release"]].recipe, situation(row))
    assert row.get("builds", verdict.builds) == verdict.builds, verdict.reasons
    assert row.get("runs", verdict.runs) == verdict.runs, verdict.reasons
    wrong = {row.get("builds"), row.get("runs")} & {"no", "unknown"}
    assert bool(wrong) == ("why" in row)
    if wrong:
        assert named(verdict, wrong.pop()) == {row["why"]}
    if "says" in row:
        assert any(row["says"] in reason.text for reason in verdict.reasons)
    if "loses" in row:
        lost = [loss.feature for loss in verdict.loses if loss.certain]
        assert len(lost) == len(row["loses"])
        assert all(word in feature for word, feature in zip(row["loses"], lost, strict=True))
    if "notes" in row:
        assert {note.constraint for note in verdict.notes()} == set(row["notes"])
    assert row.get("oneapi_used", verdict.oneapi) == verdict.oneapi
    assert row.get("python_used", verdict.python) == verdict.python


def test_every_reason_that_says_no_tells_what_was_found_and_where_it_is_known_from(
    known: dict[str, Release],
) -> None:
    for row in TABLE["rows"]:
        for reason in solve(known[row["release"]].recipe, situation(row)).against():
            assert reason.found
            assert reason.todo, reason
            if reason.constraint in ("oneapi", "gcc", "python", "cmake", "gpu", "cxx11_abi", "ocloc"):
                assert reason.source, (row["release"], reason)


def test_the_table_is_large_and_every_row_has_a_source() -> None:
    assert len(TABLE["rows"]) >= FEWEST
    assert all(row["source"] for row in TABLE["rows"])
    assert len({str(sorted(row.items())) for row in TABLE["rows"]}) == len(TABLE["rows"])
    assert {row["release"] for row in TABLE["rows"]} >= {"2.4.0", "2.8.0", "2.13.0", "2.15.0"}

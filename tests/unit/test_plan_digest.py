"""The digest of a plan depends on what was chosen, and on nothing beside it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from support.data_files import compare
from support.plan_files import FOLDER, PLANS, target_for, text_of
from support.releases import recipe_of

from xpubuild.engine.fingerprint import digest
from xpubuild.engine.model import Command, Step
from xpubuild.install.build_jobs import JOBS_VARIABLES, VARIABLE, one_by_one
from xpubuild.install.environment_steps import explain_held
from xpubuild.install.planner import inputs
from xpubuild.recipe.load import validated


def _other(document: dict[str, Any]) -> None:
    """Add a component, a variant, and what says nothing of the build to a recipe; change others' pins."""
    document["components"]["more"] = {**document["components"]["vision"], "dist": "more", "optional": True}
    document["variants"]["mine"] = {"env": {"torch": {"USE_MINE": 1}}}
    document["variants"]["minimal"]["env"]["vision"] = {"FORCE_MINE": 1}
    document["components"]["audio"]["source"]["commit"] = "7" * 40
    document["verify"]["require"] = [*document["verify"].get("require", ()), "more"]
    document |= {"title": "another", "costs": {}, "facts": {}, "loses": [], "arch_upstream": ["pvc"]}
    document["needs"]["disk_gib"] = 99.0


def _switch(document: dict[str, Any]) -> None:
    document["variants"]["minimal"]["env"]["torch"]["USE_MINE"] = 1


def _commit(document: dict[str, Any]) -> None:
    document["components"]["torch"]["source"]["commit"] = "7" * 40


def _range(document: dict[str, Any]) -> None:
    document["needs"]["oneapi"] = ">=2025.3"


@pytest.mark.parametrize(
    ("change", "same"), [(_other, True), (_switch, False), (_commit, False), (_range, False)]
)
def test_what_was_not_chosen_changes_no_digest(
    change: Callable[[dict[str, Any]], None], same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = recipe_of("2.13")
    before = digest(inputs(target_for("2.13", variant="minimal")))
    document: Any = copy.deepcopy(loaded.recipe.model_dump(mode="json", by_alias=True, exclude_none=True))
    change(document)
    changed = validated(document, loaded.path, loaded.folders)
    monkeypatch.setattr("support.plan_files.recipe_of", lambda _: changed)
    assert (digest(inputs(target_for("2.13", variant="minimal"))) == before) is same


# ---- What each step of a few plans hands on is what tests/data/plans says; ``make regen`` rewrites it


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_what_its_file_says(name: str) -> None:
    path = FOLDER / f"{name}.yaml"
    written = path.read_text("utf-8") if path.exists() else ""
    compare(written, text_of(name), "make regen")


def test_there_is_no_file_without_a_plan() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*PLANS}


# ---- Builds that cannot wait for memory run one after the other; nothing runs beside them


def build(name: str, *needs: str, after: tuple[str, ...] = (), waits: bool = False) -> Step:
    tuning = {**dict.fromkeys(JOBS_VARIABLES, "8"), **({VARIABLE: "/settings"} if waits else {})}
    return Step(name, name, needs=needs, after=after, commands=(Command(("make",), tuning=tuning),))


def other(name: str, *needs: str) -> Step:
    return Step(name, name, needs=needs, commands=(Command(("true",)),))


def after_of(*steps: Step) -> dict[str, tuple[str, ...]]:
    return {step.id: step.after for step in one_by_one(steps)}


def test_builds_run_one_after_the_other() -> None:
    found = after_of(
        other("env"), build("torch", "env"), other("install", "torch"), build("vision", "install", "torch"),
        build("audio", "install", after=("env",)),
    )  # fmt: skip
    assert found == {"env": (), "torch": (), "install": (), "vision": (), "audio": ("env", "torch", "vision")}


def test_builds_whose_compilers_wait_run_side_by_side_and_beside_no_other() -> None:
    found = after_of(build("a", waits=True), build("b", waits=True), build("c"), build("d", waits=True))
    assert found == {"a": (), "b": (), "c": ("a", "b"), "d": ("c",)}


# ---- What is said of plans: in scripts, summaries, refusals and errors of pip


def explained(*tail: str) -> Any:
    return explain_held(tail, indexes=("https://host/i",))


def test_a_package_that_must_be_kept_or_not_be_there() -> None:
    conflict = "ERROR: Cannot install because these package versions have conflicting dependencies."
    held = "    The user requested (constraint) torch==2.13.0+cpu"
    kept = explained(conflict, held, "    vision 0.2 depends on torch==2.12", "    x 1 depends on y")
    forbidden = explained("ResolutionImpossible", "The user requested (constraint) triton<0")
    whole = [error.to_json() for error in (kept, forbidden)]
    fix = (
        "use compatible versions in the requirement file, or exclude the component (--without); then run the"
        " same command again"
    )
    what = "pip would replace a package that this workspace was built with: "
    shared = {"code": "audit", "exit_code": 60, "fix": fix, "commands": ["xpubuild status"], "log": None,
              "explanation": None}  # fmt: skip
    wanting = ["vision 0.2 (requires torch==2.12)", "x 1 (requires y)"]
    assert whole == [
        {**shared, "what": f"{what}torch==2.13.0+cpu must be kept", "why": "; ".join(wanting),
         "evidence": {"held": "torch==2.13.0+cpu", "wanting": wanting}},
        {**shared, "what": f"{what}triton must not be installed",
         "why": "a requirement needs another version",
         "evidence": {"held": "triton<0", "wanting": []}},
    ]  # fmt: skip
    assert explained("something else").code != "audit"
    # What no index has is no conflict: nothing asks for another version of it.
    gone = explained(
        conflict, held, "The user requested torch", "Some have no matching distributions available"
    )
    assert gone.code != "audit"

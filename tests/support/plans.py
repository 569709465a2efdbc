"""Targets and plans of recipes and facts that a test makes up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.plan_files import known_target
from xpubuild.engine.model import Plan
from xpubuild.install.choose import choose
from xpubuild.install.options import Options, Resolved
from xpubuild.install.planner import make_plan
from xpubuild.install.target import Choice, Compilers, Target
from xpubuild.recipe.model import LoadedRecipe, Recipe
from xpubuild.recipe.situation import Situation

FIRST, SECOND = "1" * 40, "2" * 40
FACTS: Mapping[str, Any] = {
    "python": "/usr/bin/python3",
    "python_version": "3.11.7",
    "compilers": Compilers("/usr/bin/gcc", "/usr/bin/g++", "12.2"),
    "jobs": 1,
    "jobs_reason": "asked for",
    "cache": Path("/cache"),
    "requirements": {},
    "situation": Situation(),
}


def loaded_recipe(**changes: Any) -> LoadedRecipe:
    """Return a recipe that follows a branch of torch, and builds triton where it is asked for."""
    document = {
        "schema": 1,
        "name": "mine",
        "title": "t",
        "target": "cpu",
        "components": {
            "torch": pinned("torch", commit=None, ref="main"),
            "triton": pinned("triton", commit=SECOND, more={"version": "3.2.0", "optional": True}),
        },
        **changes,
    }
    recipe = Recipe.model_validate(document)
    return LoadedRecipe(recipe=recipe, path=Path("/r/mine.yaml"), folders=(), document=document)


def pinned(
    name: str, *, commit: str | None = "4" * 40, more: Mapping[str, Any] | None = None, **source: Any
) -> dict[str, Any]:
    at = {"url": f"https://host/{name}.git", "commit": commit, **source}
    return {"kind": "source", "dist": name, "source": at, **(more or {})}


def chosen(asked: Mapping[str, Any] | None = None, **changes: Any) -> Choice:
    return choose(Options(None, **{"workspace": Path("/ws"), **(asked or {})}), loaded_recipe(**changes))


def target_of(
    asked: Mapping[str, Any] | None = None, facts: Mapping[str, Any] | None = None, **changes: Any
) -> Target:
    return known_target(chosen(asked, **changes), **{**FACTS, **(facts or {})})


def plan_of(
    asked: Mapping[str, Any] | None = None, facts: Mapping[str, Any] | None = None, **changes: Any
) -> Plan:
    return make_plan(target_of(asked, facts, **changes))


def resolved(commit: str) -> dict[str, Any]:
    found = Resolved(ref="main", commit=commit, url="https://host/torch.git", when="2026-01-31T12:00:00+0000")
    return {"resolved": {"torch": found}}

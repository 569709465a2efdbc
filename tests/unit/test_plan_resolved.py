"""A commit that was looked up is what the planner plans with; what is not known stays an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.plans import plan_of

from xpubuild.engine.model import Plan
from xpubuild.errors import RecipeError
from xpubuild.install.choose import choose
from xpubuild.install.context import Context
from xpubuild.install.ignored_env import ignored_variables
from xpubuild.install.recipe_proof import recipe_proofs
from xpubuild.install.request import Compilers, Facts, Request, Resolved
from xpubuild.recipe.model import LoadedRecipe, Recipe
from xpubuild.workspace.layout import Layout

FIRST, SECOND = "1" * 40, "2" * 40


def request(**changes: Any) -> Request:
    source = {"url": "https://host/torch.git", "ref": "main"}
    document = {
        "schema": 1,
        "name": "mine",
        "title": "t",
        "target": "cpu",
        "components": {
            "torch": {"kind": "source", "dist": "torch", "source": source},
            "triton": {
                "kind": "source",
                "dist": "triton",
                "version": "3.2.0",
                "optional": True,
                "source": {"url": "https://host/triton.git", "commit": SECOND},
            },
        },
        **changes,
    }
    loaded = LoadedRecipe(
        recipe=Recipe.model_validate(document), path=Path("/r/mine.yaml"), folders=(), document=document
    )
    return Request(loaded=loaded, workspace=Path("/ws"))


FACTS = Facts(
    python="/usr/bin/python3",
    python_version="3.11.7",
    compilers=Compilers("/usr/bin/gcc", "/usr/bin/g++", "12.2"),
    jobs=1,
    jobs_reason="asked for",
    cache=Path("/cache"),
    requirements={},
)


def resolved(commit: str) -> Facts:
    found = Resolved(ref="main", commit=commit, url="https://host/torch.git", when="2026-01-31T12:00:00+0000")
    return replace(FACTS, resolved={"torch": found})


def prints(plan: Plan) -> str:
    return plan.fingerprints["torch.source"]


def test_without_a_commit_there_is_no_plan() -> None:
    with pytest.raises(RecipeError, match="has no commit"):
        plan_of(request(), FACTS)


def test_the_commit_that_was_found_decides() -> None:
    one, same, other = (plan_of(request(), resolved(commit)) for commit in (FIRST, FIRST, SECOND))
    assert one.lock_digest == same.lock_digest != other.lock_digest
    assert prints(one) == prints(same) != prints(other)
    (line,) = one.summary["resolved"]
    assert line == f"torch: main is {FIRST} (looked up 2026-01-31T12:00:00+0000)"
    step = next(step for step in one.steps if step.id == "torch.source")
    assert FIRST in step.commands[0].argv
    assert "recipe-tree" in [proof.key()["proof"] for proof in step.proofs]


def test_when_it_was_asked_changes_nothing() -> None:
    later = resolved(FIRST)
    again = replace(later, resolved={"torch": replace(later.resolved["torch"], when="later")})
    assert plan_of(request(), later).lock_digest == plan_of(request(), again).lock_digest


def test_the_patches_of_a_line_do_not_decide_what_its_newest_release_is() -> None:
    more = request(patches={"1.0.0": {"title": "older"}})
    facts = resolved(FIRST)
    assert plan_of(request(), facts).lock_digest == plan_of(more, facts).lock_digest


def test_a_pin_of_triton_counts_where_triton_is_built() -> None:
    for with_, commit in (((), None), (("triton",), SECOND)):
        asked = replace(request(), with_=with_)
        context = Context(asked, choose(asked), resolved(FIRST), Layout(Path("/ws")))
        (proof,) = recipe_proofs(context, "torch")
        assert proof.wanted.triton_commit == commit


def test_the_shell_is_heard_where_it_would_have_mattered() -> None:
    shell = {"USE_XPU": "0", "PYTORCH_DEBUG_XPU_FALLBACK": "1", "TRITON_OFFLINE_BUILD": "1"}
    shell |= {"ZE_AFFINITY_MASK": "1"}  # this one is passed on: which devices a job may use
    asked = request()
    recipe = asked.loaded.recipe
    choice = choose(asked)
    (text,) = ignored_variables(recipe, choice, shell)
    assert text.endswith(": TRITON_OFFLINE_BUILD, USE_XPU")
    (text,) = ignored_variables(recipe, replace(choice, target="xpu"), shell)
    assert text.endswith(": PYTORCH_DEBUG_XPU_FALLBACK, TRITON_OFFLINE_BUILD, USE_XPU")
    assert ignored_variables(recipe, replace(choice, components=()), shell) == ()
    assert ignored_variables(recipe, choice, {"HOME": "/h"}) == ()

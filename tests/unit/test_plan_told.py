"""What is said of plans: in scripts, summaries, refusals and errors of pip."""

from __future__ import annotations

from typing import Any

import pytest
from support.plans import pinned, plan_of

from xpubuild.errors import UnsatisfiableError
from xpubuild.install import release
from xpubuild.install.complete import explain_held
from xpubuild.install.options import Options
from xpubuild.install.target import Compilers, OneapiFacts
from xpubuild.recipe.releases import releases
from xpubuild.recipe.situation import Situation
from xpubuild.resources import recipes_dir


def test_a_summary_says_what_is_built_and_why() -> None:
    why = {
        "why": "the newest",
        "warnings": ("of the host",),
        "oneapi": OneapiFacts(warnings=("of oneAPI",)),
    }
    changes = {"targets": ["xpu"], "target": "xpu", "components": {"torch": pinned("torch")}}
    facts = {**why, "compilers": Compilers("cc", "c++", "13")}
    summary = dict(plan_of(facts=facts, **changes).summary)
    assert summary == {
        "recipe": "mine: t", "target": "xpu", "components": "torch", "torch": "from source",
        "python": "3.11.7 (/usr/bin/python3)", "compilers": "c++ 13", "cxx11_abi": 1,
        "variant": "as the recipe",
        "arch": "as upstream", "jobs": "1 (asked for)", "resolved": [], "workspace": "/ws",
        "warnings": ["of the host", "of oneAPI"], "chosen": "the newest",
        **{name: summary[name] for name in ("notes", "loses", "not_known") if name in summary},
    }  # fmt: skip


def test_alternatives_are_some_and_the_number_of_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = ("2.14.0", "2.13.0", "2.12.1", "2.11.0", "2.10.0", "2.9.1", "2.8.0")
    known = [item for item in releases(recipes_dir()) if item.version in versions]
    here = Situation(gpu="max", gpu_targets=("pvc",), driver="rolling", oneapi=("2025.3",),
                     python=("3.11.9",), gcc="13.2.0", host_compiler="GNU")  # fmt: skip
    recipe = next(item.recipe for item in known if item.version == "2.14.0")
    monkeypatch.setattr(release, "situation_for", lambda *_: here)
    monkeypatch.setattr(release, "releases", lambda: known)
    host: Any = None
    error = UnsatisfiableError("what", why="why", fix="fix", commands=("first",))
    told = release.with_alternatives(error, recipe, Options(None, python="x y", cxx11_abi="1"), host)
    fitting = told.evidence["would_fit"]
    assert told.commands == ("first", f"xpubuild plan {fitting[0]} --python 'x y' --cxx11-abi 1")
    assert told.fix.startswith("fix; releases that nothing known rules out here: ")
    assert (" older" in told.fix) == (len(fitting) > 4)
    monkeypatch.setattr(release, "releases", lambda: known[:1])
    none = release.with_alternatives(UnsatisfiableError("what"), recipe, Options(None), host)
    assert none.fix == "this host and these options rule out every other release too"
    assert none.commands == ("xpubuild recipes matrix --here",)


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

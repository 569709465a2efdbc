"""What is said of plans: in scripts, summaries, refusals and errors of pip."""

from __future__ import annotations

from typing import Any

from xpubuild.install.complete import explain_held


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

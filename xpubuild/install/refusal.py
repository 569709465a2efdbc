"""The error for a host that cannot build or run a release: all reasons, and what would work. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace

from xpubuild.errors import UnsatisfiableError
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.releases import Release
from xpubuild.recipe.situation import Reason, Situation, Verdict

_MOST = 4


def refused(recipe: Recipe, verdict: Verdict) -> UnsatisfiableError:
    """Return the error for a verdict that says no."""
    against = verdict.against()
    verb = "be built" if verdict.builds == "no" else "run"
    return UnsatisfiableError(
        f"'{recipe.name}' cannot {verb} here",
        why="; ".join(reason.text for reason in against),
        fix="; ".join(dict.fromkeys(reason.todo for reason in against if reason.todo)),
        evidence={"constraints": [evidence(reason) for reason in against]},
    )


def evidence(reason: Reason) -> dict[str, str]:
    """Return a reason as it stands in documents."""
    return {
        "constraint": reason.constraint,
        "concern": reason.concern,
        "answer": reason.answer,
        "wanted": reason.wanted,
        "found": reason.found,
        "todo": reason.todo,
        "source": reason.source,
        "confidence": reason.confidence,
    }


def fitting(known: Iterable[Release], situation: Situation) -> list[tuple[Release, Verdict]]:
    """Return the releases that nothing speaks against here, newest first."""
    free = replace(situation, components=None, versions={})
    verdicts = ((release, solve(release.recipe, free)) for release in known)
    return [(release, verdict) for release, verdict in verdicts if not verdict.refused]


def with_alternatives(
    error: UnsatisfiableError,
    recipe: Recipe,
    situation: Situation,
    known: Sequence[Release],
    options: Sequence[str] = (),
) -> UnsatisfiableError:
    """Return the error with the releases that would work here; unchanged where no constraint is behind it.

    ``options`` are those of the command line that the releases were tried with.
    """
    verdict = solve(recipe, situation)
    if not verdict.refused:
        return error
    others = [item for item in fitting(known, situation) if item[0].recipe.name != recipe.name]
    others = [item for item in others if item[0].recipe.release]
    told = ", ".join(_told(release, found) for release, found in others[:_MOST])
    told += f" and {len(others) - _MOST} older" if len(others) > _MOST else ""
    works = (
        f"releases that nothing known rules out here: {told}"
        if told
        else "this host and these options rule out every other release too"
    )
    also = [item.text for item in verdict.against() if not _is_told(item, error)]
    error.why = "; ".join(part for part in (error.why, *also) if part)
    error.fix = f"{error.fix}; {works}" if error.fix else works
    error.commands = (
        *error.commands,
        *(
            [shlex.join(("xpubuild", "plan", _first(others), *options, *_switch(situation)))]
            if others
            else ["xpubuild recipes matrix --here"]
        ),
    )
    error.evidence["constraints"] = [evidence(reason) for reason in verdict.against()]
    error.evidence["would_fit"] = [release.name for release, _ in others]
    return error


def _first(found: Sequence[tuple[Release, Verdict]]) -> str:
    """Return the newest release whose commit is known, so that planning it needs no network."""
    return next((release.name for release, _ in found if release.pinned), found[0][0].name)


def _switch(situation: Situation) -> tuple[str, ...]:
    return () if situation.cxx11_abi is None else ("--cxx11-abi", str(situation.cxx11_abi))


def _told(release: Release, verdict: Verdict) -> str:
    lost = [item.feature for item in verdict.loses if item.certain]
    return release.name + (f" (without {', '.join(lost)})" if lost else "")


def _is_told(reason: Reason, error: UnsatisfiableError) -> bool:
    """Whether an error that was raised elsewhere says the same already."""
    words = {"cxx11_abi": "ABI", "oneapi": "oneAPI", "python": "Python", "gcc": "GCC", "host_compiler": "GCC"}
    word = words.get(reason.constraint)
    return reason.text in error.why or (word is not None and word in error.what)

"""How upstream stands to the oneAPI of a build: its own, tolerated, or only with patches."""

from __future__ import annotations

from collections.abc import Iterator

from xpubuild.machine.versions import fits
from xpubuild.recipe.conditions import Case
from xpubuild.recipe.limits import Patch, Toolkit
from xpubuild.recipe.situation import Reason, Standing

_WORDS = {"pairing": "upstream's pairing", "tolerated": "tolerated", "patched": "only with patches"}


def standing(case: Case) -> Standing | None:
    """Return how upstream stands to the oneAPI of a case, or None where there is none or no line is known."""
    toolkit = _line(case)
    if toolkit is None:
        return None
    return Standing(
        kind=toolkit.standing,
        text=_WORDS[toolkit.standing],
        upstream=_upstream(case),
        note=toolkit.note,
        source=toolkit.source,
        patches=tuple(patch_text(patch) for patch in toolkit.patches),
    )


def toolkit_reasons(case: Case) -> Iterator[Reason]:
    """Return a note where upstream builds the release with another oneAPI than this one."""
    found = standing(case)
    if found is None or found.kind != "tolerated":
        return
    pairs = f"upstream builds it with {found.upstream}" if found.upstream else "upstream's own is not known"
    told = "; ".join(filter(None, (f"oneAPI {case.oneapi} is tolerated: {pairs}", found.note)))
    yield Reason("oneapi", "note", "no", wanted="", found=told, source=found.source)


def patches_todo(case: Case) -> str:
    """Return what makes the release build with this oneAPI all the same, or nothing."""
    found = standing(case)
    if found is None or found.kind != "patched":
        return ""
    return f"; sites that keep oneAPI {case.oneapi} patch it, not tried here: " + "; ".join(found.patches)


def patch_text(patch: Patch) -> str:
    """Return a patch in words: 'in torch revert URL (what it did)'."""
    return f"in {patch.component} {patch.action} {patch.url} ({patch.what})"


def _line(case: Case) -> Toolkit | None:
    if case.situation.target != "xpu" or case.oneapi is None:
        return None
    lines = case.recipe.toolkits
    return next((item for item in lines if fits(case.oneapi, item.oneapi) == "yes"), None)


def _upstream(case: Case) -> str:
    return next((f"oneAPI {item.oneapi}" for item in case.recipe.toolkits if item.standing == "pairing"), "")

"""The constraint solver: can a host build and run a release, and which features would be disabled. Pure.

``doctor``, ``recipes matrix``, ``plan``, ``install`` and ``image`` ask ``solve`` alone. Unknown facts give
the answer "unknown", never "yes". Each answer has the constraint, what was found, the source of the
constraint, and a fix with what is lost by it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from packaging.specifiers import SpecifierSet

from xpubuild.machine.versions import Answer, fits
from xpubuild.recipe.aot_targets import arch_reasons, ocloc_reasons
from xpubuild.recipe.conditions import WORDS, Case, condition_text, holds
from xpubuild.recipe.limits import Patch, Toolkit
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.pairing import pairing_reasons
from xpubuild.recipe.situation import Concern, Lost, Reason, Situation, Standing, Verdict

_FOREIGN = "to build for other machines, pass their targets with --arch"
_RANK: dict[Answer, int] = {"no": 0, "unknown": 1, "yes": 2}
_STANDING = {"pairing": "upstream's pairing", "tolerated": "tolerated", "patched": "needs {}"}


def solve(recipe: Recipe, situation: Situation) -> Verdict:
    """Return whether ``situation`` can build and run ``recipe``; never raises for what it is given.

    Of several interpreters and oneAPI versions the pair with the best answer is taken, the first of equals.
    """
    pythons = situation.python or (None,)
    toolkits = (situation.oneapi or (None,)) if situation.target == "xpu" else (None,)
    cases = [Case(recipe, situation, *pair) for pair in itertools.product(toolkits, pythons)]
    case = max(cases, key=lambda item: _RANK[_worst((*_versions(item), *_refusals(item)), "builds", "runs")])
    reasons = tuple(_reasons(case))
    return Verdict(
        builds=_worst(reasons, "builds"),
        runs=_worst(reasons, "runs"),
        reasons=reasons,
        loses=tuple(_losses(case)),
        oneapi=case.oneapi,
        python=case.python,
        toolkit=_standing(case),
    )


def _worst(reasons: Iterable[Reason], *concerns: Concern) -> Answer:
    answers = (item.answer for item in reasons if item.concern in concerns)
    return min(answers, key=_RANK.__getitem__, default="yes")


def _reasons(case: Case) -> Iterator[Reason]:
    if case.situation.target not in case.recipe.targets:
        yield case.reason(
            "target", "builds", "no",
            wanted="target " + " or ".join(case.recipe.targets),
            found=f"target {case.situation.target} was requested",
            todo=f"use --target {case.recipe.targets[0]}",
            path="targets",
        )  # fmt: skip
    yield from _versions(case)
    yield from _compiler(case)
    yield from _abi(case)
    yield from pairing_reasons(case)
    yield from _host(case)
    yield from _refusals(case)
    yield from arch_reasons(case)
    yield from ocloc_reasons(case)


def _versions(case: Case) -> Iterator[Reason]:
    """Return the reasons that depend on which oneAPI and which interpreter is used."""
    needs, host = case.recipe.needs, case.situation
    if case.xpu:
        todo = f"install oneAPI {needs.oneapi} as well, or use a compatible release{_patches_todo(case)}"
        yield from _version(case, "oneapi", needs.oneapi, host.oneapi, todo)
        yield from _tolerated(case)
    yield from _version(case, "python", needs.python, host.python, f"use Python {needs.python} with --python")


def _version(
    case: Case, name: str, wanted: str | None, there: tuple[str, ...] | None, todo: str
) -> Iterator[Reason]:
    """Return why a version does not fit; ``there`` are all that the host has, None if unknown."""
    path, word = f"needs.{name}", WORDS[name]
    if wanted is None:
        yield from _if_unknown(case, name, "builds", path, word)
        return
    answer = "no" if there == () else fits(case.version(name), wanted)
    if answer != "yes":
        found = f"the host has {', '.join(there)}" if there else f"the host has no {word}"
        found = f"it is unknown which {word} the host has" if there is None else found
        yield case.reason(
            name, "builds", answer, wanted=f"{word} {wanted}", found=found, todo=todo, path=path
        )


def _if_unknown(case: Case, name: str, concern: Concern, path: str, word: str) -> Iterator[Reason]:
    """Return a reason where the recipe says that the constraint itself is not known."""
    fact = case.recipe.facts.get(path)
    if fact is not None and fact.confidence == "unknown":
        yield case.reason(name, concern, "unknown", found=f"it is unknown which {word} it needs", path=path)


def _compiler(case: Case) -> Iterator[Reason]:
    needs, host = case.recipe.needs, case.situation
    # Another compiler leaves XPU kernels out, which does not affect a build for the CPU.
    lost = needs.host_compiler == "GNU" and case.xpu
    kind = host.host_compiler or ("GNU" if host.gcc else None)
    if (lost or needs.gcc is not None) and kind != "GNU":
        left_out = "; with it, the XPU kernels are not built, without an error" if lost else ""
        yield case.reason(
            "host_compiler", "builds", "unknown" if kind is None else "no",
            wanted="GCC as host compiler",
            found="the compiler is unknown" if kind is None else f"the host has {kind}{left_out}",
            todo="set CC and CXX to GCC",
            path="needs.host_compiler",
        )  # fmt: skip
    else:
        there = (host.gcc,) if host.gcc else None
        yield from _version(case, "gcc", needs.gcc, there, f"set CC and CXX to a GCC {needs.gcc}")


def _abi(case: Case) -> Iterator[Reason]:
    rule, wanted = case.recipe.abi, case.situation.cxx11_abi
    if wanted is None or rule.honoured or wanted == rule.default:
        return
    yield case.reason(
        "cxx11_abi", "builds", "no",
        wanted=f"always C++11 ABI {rule.default}",
        found=f"--cxx11-abi {wanted} was requested" + (f"; {rule.note}" if rule.note else ""),
        todo=f"use --cxx11-abi {rule.default}, or a release that honours the switch",
        path="abi",
    )  # fmt: skip


def _host(case: Case) -> Iterator[Reason]:
    needs, host = case.recipe.needs, case.situation
    for name, word, allowed, here in (
        ("gpu", "a GPU of the family", needs.gpus, host.gpu),
        ("driver", "driver", needs.drivers, host.driver),
    ):
        path = f"needs.{name}s"
        if case.xpu and not allowed:
            yield from _if_unknown(case, name, "runs", path, name)
        elif case.xpu and here not in allowed:
            yield case.reason(
                name, "runs", "unknown" if here is None else "no",
                wanted=f"{word} {' or '.join(allowed)}",
                found=f"it is unknown which {name} the host has" if here is None else f"the host has {here}",
                todo=_driver_todo(case) if name == "driver" else _FOREIGN,
                path=path,
            )  # fmt: skip
    if case.xpu and host.loader is not None and (answer := fits(host.loader, needs.loader)) != "yes":
        yield case.reason(
            "loader", "runs", answer,
            wanted=f"a loader of Level Zero {needs.loader}",
            found=f"the host has {host.loader}, with which the SYCL runtime finds no GPU",
            todo=f"install a loader {needs.loader}; that of the driver's own repository is recent enough",
            path="needs.loader",
        )  # fmt: skip


def _driver_todo(case: Case) -> str:
    """Return the driver families that fit, each with the features that a host with it lacks."""
    now = {item.feature for item in _losses(case) if item.certain}
    shown = []
    for family in case.recipe.needs.drivers:
        then = Case(case.recipe, replace(case.situation, driver=family), case.oneapi, case.python)
        if any(item.answer == "no" for item in (*_refusals(then), *ocloc_reasons(then))):
            continue
        lost = [item.feature for item in _losses(then) if item.certain and item.feature not in now]
        shown.append(f"{family} (loses {' and '.join(lost)})" if lost else family)
    return f"install a driver of the family {' or '.join(shown)}" if shown else ""


def level(verdict: Verdict) -> int:
    """Return how good a verdict is: 0 cannot, 1 not known, 2 with a loss, 3 without one."""
    answer = min((verdict.builds, verdict.runs), key=_RANK.__getitem__)
    whole = not any(item.certain for item in verdict.loses)
    return _RANK[answer] + (answer == "yes" and whole)


def _refusals(case: Case) -> Iterator[Reason]:
    for index, refusal in enumerate(case.recipe.refuses):
        answer = holds(case, refusal.when, refusal.driver, refusal.gpu, refusal.targets)
        if answer != "no":
            concern: Concern = "runs" if refusal.driver or refusal.gpu else "builds"
            yield case.reason(
                "refused", concern, "no" if answer == "yes" else "unknown",
                found=refusal.why, path=f"refuses.{index}",
            )  # fmt: skip


def _losses(case: Case) -> Iterator[Lost]:
    chosen, every = case.situation.components, case.recipe.components
    there = {*(chosen or ()), *(every[name].instead_of for name in chosen or () if name in every)}
    for name, component in every.items() if chosen is not None else ():
        if component.gives and name not in there and case.situation.target in component.targets:
            yield Lost(component.gives, f"without {name}: --with {name}")
    for loss in case.recipe.loses:
        answer = holds(case, loss.when, loss.driver, loss.gpu, loss.targets)
        if answer != "no":
            because = condition_text(loss.when, loss.driver, case=case)
            yield Lost(loss.feature, because or loss.note, certain=answer == "yes")


def _standing(case: Case) -> Standing | None:
    """Return how upstream supports the oneAPI of a case; None without oneAPI, or if no entry matches it."""
    lines = case.recipe.toolkits if case.xpu and case.oneapi is not None else []
    line = next((item for item in lines if fits(case.oneapi, item.oneapi) == "yes"), None)
    if line is None:
        return None
    return Standing(
        kind=line.standing,
        text=_STANDING[line.standing].format(_count(line)),
        upstream=next((f"oneAPI {item.oneapi}" for item in lines if item.standing == "pairing"), ""),
        note=line.note,
        source=line.source,
        patches=tuple(patch_text(patch) for patch in line.patches),
    )


def _tolerated(case: Case) -> Iterator[Reason]:
    """Return a note where upstream builds the release with another oneAPI, or what patches this one needs."""
    found = _standing(case)
    if found is not None and found.kind == "patched" and fits(case.oneapi, case.recipe.needs.oneapi) == "yes":
        line, shown = (
            patched_line(case.recipe),
            f"oneAPI {case.oneapi} {found.text}: {'; '.join(found.patches)}",
        )
        if line is None or not all(patch.known for patch in line.patches):
            todo = (
                "name each commit in a recipe of your own, whose needs.oneapi is that line of toolkits alone"
            )
            yield case.reason("oneapi", "builds", "no", found=shown, todo=todo, path="needs.oneapi")
        else:
            yield Reason(
                "oneapi", "note", "no", wanted="", found=f"{shown}; they are applied", source=found.source
            )
    if found is not None and found.kind == "tolerated":
        pairs = (
            f"upstream builds it with {found.upstream}" if found.upstream else "upstream's own is not known"
        )
        shown = "; ".join(filter(None, (f"oneAPI {case.oneapi} is tolerated: {pairs}", found.note)))
        yield Reason("oneapi", "note", "no", wanted="", found=shown, source=found.source)


def _patches_todo(case: Case) -> str:
    """Return the patches with which the release builds with this oneAPI; empty if it needs none."""
    found = _standing(case)
    if found is None or found.kind != "patched":
        return ""
    return f"; with oneAPI {case.oneapi} it {found.text}, not tried here: " + "; ".join(found.patches)


def patch_text(patch: Patch) -> str:
    """Return a patch in words: 'in torch revert URL (what it did)', and whether it can be applied."""
    lacks = "" if patch.known else ", whose commit the recipe lacks"
    return f"in {patch.component} {patch.action} {patch.url} ({patch.what}){lacks}"


def patched_line(recipe: Recipe) -> Toolkit | None:
    """Return the entry of toolkits whose patches are applied: the recipe is for its range of oneAPI alone."""
    wanted = SpecifierSet(recipe.needs.oneapi or "")
    lines = (line for line in recipe.toolkits if line.standing == "patched")
    return next((line for line in lines if SpecifierSet(line.oneapi) == wanted), None)


def _count(line: Toolkit) -> str:
    kind = "revert" if all(patch.action == "revert" for patch in line.patches) else "patch"
    plural = {"revert": "reverts", "patch": "patches"}[kind]
    return f"1 {kind}" if len(line.patches) == 1 else f"{len(line.patches)} {plural}"

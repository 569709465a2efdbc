"""The constraint solver: can a host build and run a release, and which features would be disabled. Pure.

Unknown facts give the answer "unknown", never "yes". Each answer has the constraint, what was found, the
source of the constraint and what to do.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from xpubuild.machine.versions import fits
from xpubuild.recipe.aot_targets import arch_reasons, ocloc_reasons
from xpubuild.recipe.conditions import Case, holds, told
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.pairing import pairing_reasons
from xpubuild.recipe.situation import Answer, Lost, Reason, Situation, Verdict
from xpubuild.recipe.toolkits import patches_todo, standing, toolkit_reasons

_RANK: dict[Answer, int] = {"no": 0, "unknown": 1, "yes": 2}


def solve(recipe: Recipe, situation: Situation) -> Verdict:
    """Return whether ``situation`` can build and run ``recipe``; never raises for what it is given.

    Of several interpreters and oneAPI versions the pair with the best answer is taken, the first of equals.
    """
    case = _best_case(recipe, situation)
    reasons = tuple(_reasons(case))
    return Verdict(
        builds=_worst(reason.answer for reason in reasons if reason.concern == "builds"),
        runs=_worst(reason.answer for reason in reasons if reason.concern == "runs"),
        reasons=reasons,
        loses=tuple(_losses(case)),
        oneapi=case.oneapi,
        python=case.python,
        toolkit=standing(case),
    )


def _worst(answers: Iterable[Answer]) -> Answer:
    return min(answers, key=_RANK.__getitem__, default="yes")


def _best_case(recipe: Recipe, situation: Situation) -> Case:
    pythons = situation.python or (None,)
    toolkits = (situation.oneapi or (None,)) if situation.target == "xpu" else (None,)
    cases = [Case(recipe, situation, *pair) for pair in itertools.product(toolkits, pythons)]
    return max(cases, key=lambda case: _RANK[_worst(reason.answer for reason in _of_versions(case))])


def _of_versions(case: Case) -> Iterator[Reason]:
    """Return the reasons that depend on which interpreter and which oneAPI is used."""
    yield from _python(case)
    yield from _oneapi(case)
    yield from _refusals(case)


def _reasons(case: Case) -> Iterator[Reason]:
    yield from _target(case)
    yield from _oneapi(case)
    yield from toolkit_reasons(case)
    yield from _python(case)
    yield from _compiler(case)
    yield from _cmake(case)
    yield from _abi(case)
    yield from pairing_reasons(case)
    yield from _gpu(case)
    yield from _driver(case)
    yield from _refusals(case)
    yield from arch_reasons(case)
    yield from ocloc_reasons(case)


def _target(case: Case) -> Iterator[Reason]:
    if case.situation.target not in case.recipe.targets:
        yield case.reason(
            "target", "builds", "no",
            wanted="target " + " or ".join(case.recipe.targets),
            found=f"target {case.situation.target} was requested",
            todo=f"use --target {case.recipe.targets[0]}",
            path="targets",
        )  # fmt: skip


def _oneapi(case: Case) -> Iterator[Reason]:
    wanted, path = case.recipe.needs.oneapi, "needs.oneapi"
    if case.situation.target != "xpu":
        return
    if wanted is None:
        yield from case.if_unknown("oneapi", "builds", path)
        return
    answer = "no" if case.situation.oneapi == () else fits(case.oneapi, wanted)
    if answer != "yes":
        yield case.reason(
            "oneapi", "builds", answer,
            wanted=f"oneAPI {wanted}",
            found=_here("oneAPI", case.situation.oneapi),
            todo=f"install oneAPI {wanted} as well, or use a compatible release{patches_todo(case)}",
            path=path,
        )  # fmt: skip


def _python(case: Case) -> Iterator[Reason]:
    wanted = case.recipe.needs.python
    answer = "no" if case.situation.python == () else fits(case.python, wanted)
    if answer != "yes":
        yield case.reason(
            "python", "builds", answer,
            wanted=f"Python {wanted}",
            found=_here("Python", case.situation.python),
            todo=f"use Python {wanted} with --python",
            path="needs.python",
        )  # fmt: skip


def _here(what: str, versions: tuple[str, ...] | None) -> str:
    if versions is None:
        return f"it is unknown which {what} the host has"
    return f"the host has {', '.join(versions)}" if versions else f"the host has no {what}"


def _compiler(case: Case) -> Iterator[Reason]:
    needs, situation = case.recipe.needs, case.situation
    # That another compiler leaves XPU kernels out is of no concern to a build for the CPU.
    must_be_gcc = (needs.host_compiler == "GNU" and situation.target == "xpu") or needs.gcc is not None
    kind = situation.host_compiler or ("GNU" if situation.gcc else None)
    if must_be_gcc and kind != "GNU":
        yield case.reason(
            "host_compiler", "builds", "unknown" if kind is None else "no",
            wanted="GCC as host compiler",
            found="the compiler is unknown" if kind is None else f"the host has {kind}{_left_out(case)}",
            todo="set CC and CXX to GCC",
            path="needs.host_compiler",
        )  # fmt: skip
        return
    if needs.gcc is None:
        yield from case.if_unknown("gcc", "builds", "needs.gcc")
        return
    answer = fits(situation.gcc, needs.gcc)
    if answer != "yes":
        yield case.reason(
            "gcc", "builds", answer,
            wanted=f"GCC {needs.gcc}",
            found=told(situation.gcc, "the GCC"),
            todo=f"set CC and CXX to a GCC {needs.gcc}",
            path="needs.gcc",
        )  # fmt: skip


def _left_out(case: Case) -> str:
    lost = case.recipe.needs.host_compiler == "GNU" and case.situation.target == "xpu"
    return "; with it, the XPU kernels are not built, without an error" if lost else ""


def _cmake(case: Case) -> Iterator[Reason]:
    """A build brings its own CMake, so only one that is named is held against the constraint."""
    wanted, here = case.recipe.needs.cmake, case.situation.cmake
    answer = fits(here, wanted)
    if here is not None and answer != "yes":
        yield case.reason(
            "cmake", "builds", answer,
            wanted=f"CMake {wanted}",
            found=f"this host uses {here}",
            todo=f"use CMake {wanted}",
            path="needs.cmake",
        )  # fmt: skip


def _abi(case: Case) -> Iterator[Reason]:
    rule, wanted = case.recipe.abi, case.situation.cxx11_abi
    if wanted is None or rule.honoured or wanted == rule.default:
        return
    yield case.reason(
        "cxx11_abi", "builds", "no",
        wanted=f"always C++11 ABI {rule.default}",
        found=f"{wanted} was requested" + (f"; {rule.note}" if rule.note else ""),
        todo=f"use --cxx11-abi {rule.default}, or a release that honours the switch",
        path="abi",
    )  # fmt: skip


def _gpu(case: Case) -> Iterator[Reason]:
    gpus, here = case.recipe.needs.gpus, case.situation.gpu
    if case.situation.target != "xpu":
        return
    if not gpus:
        yield from case.if_unknown("gpu", "runs", "needs.gpus")
    elif here not in gpus:
        yield case.reason(
            "gpu", "runs", "unknown" if here is None else "no",
            wanted=f"a GPU of the family {' or '.join(gpus)}",
            found="the GPU of the host is unknown" if here is None else f"the host has {here}",
            todo="to build for other machines, pass their targets with --arch",
            path="needs.gpus",
        )  # fmt: skip


def _driver(case: Case) -> Iterator[Reason]:
    drivers, here = case.recipe.needs.drivers, case.situation.driver
    if case.situation.target != "xpu":
        return
    if not drivers:
        yield from case.if_unknown("driver", "runs", "needs.drivers")
    elif here not in drivers:
        yield case.reason(
            "driver", "runs", "unknown" if here is None else "no",
            wanted=f"driver {' or '.join(drivers)}",
            found="it is unknown which driver the host has" if here is None else f"the host has {here}",
            todo=f"install the driver family {drivers[0]}",
            path="needs.drivers",
        )  # fmt: skip


def _refusals(case: Case) -> Iterator[Reason]:
    for index, refusal in enumerate(case.recipe.refuses):
        answer = holds(case, refusal.when, refusal.driver, refusal.gpu, refusal.targets)
        if answer != "no":
            yield case.reason(
                "refused", "runs" if refusal.driver or refusal.gpu else "builds",
                "no" if answer == "yes" else "unknown",
                wanted="", found=refusal.why, path=f"refuses.{index}",
            )  # fmt: skip


def _losses(case: Case) -> Iterator[Lost]:
    for loss in case.recipe.loses:
        answer = holds(case, loss.when, loss.driver, loss.gpu, loss.targets)
        if answer != "no":
            because = case.condition_text(loss.when, loss.driver)
            yield Lost(loss.feature, because or loss.note, certain=answer == "yes")

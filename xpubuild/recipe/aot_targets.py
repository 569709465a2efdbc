"""The AOT targets of a build: which kernels are compiled for which, and whether ocloc knows them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from xpubuild.frozen import frozen
from xpubuild.machine.versions import Answer
from xpubuild.recipe.conditions import Case, holds
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.situation import Reason, Situation

#: AOT targets of the devices of each family; a GPU that is known by its family alone has one of them.
TARGETS_OF_FAMILY: dict[str, tuple[str, ...]] = {
    "max": ("pvc",),
    "flex": ("ats-m150", "ats-m75"),
    "arc-a": ("dg2",),
    "arc-b": ("bmg",),
    "core-ultra": ("mtl-h", "mtl-u", "arl-h", "arl-u", "arl-s", "lnl-m"),
    "panther-lake": ("ptl-h", "ptl-u"),
}
_NO_AOT = "none"
_KNOWS_NONE = Version("2.8")
# Families of device names (`ocloc compile --help`), device ids, and versions such as 12.60.7.
_DEVICE = re.compile(
    r"(pvc|bmg|cri|dg1|dg2|ats|acm|arl|mtl|lnl|ptl|wcl|nvl|tgl|adl|rpl|xe[a-z0-9]*)(-[a-z0-9]+)*(:[0-9a-z.-]+)?"
    r"|0x[0-9a-f]{4}|[0-9]+\.[0-9]+\.[0-9]+"
)
# What the ocloc of a driver family does not know. LTS 2350 is compute-runtime 23.43: its newest targets are
# those of Max, Arc A and the first Core Ultra, the latter as mtl-m and mtl-p (intel/compute-runtime
# releases/23.43, third_party/aot_config_headers/platforms.h; 22.43, which was tried, refuses the same ones).
_UNKNOWN_TO_OCLOC = {"lts-2350": re.compile(r"(?:bmg|cri|arl|lnl|ptl|wcl|nvl|xe[23]p?|mtl-[uh])(?:-.*)?")}


@frozen
class AotList:
    """The targets of one call of ocloc, and whether the build makes it; ``instead`` is how to avoid it."""

    targets: tuple[str, ...]
    answer: Answer = "yes"
    what: str = ""
    instead: str = ""


def targets_for(recipe: Recipe, situation: Situation) -> tuple[str, ...]:
    """Return the targets that a build is given: those requested by name, else those of the GPUs here.

    The recipe's list, or upstream's, stays where it has them already, or says none, or no GPU is here.
    """
    listed = tuple(recipe.arch or recipe.arch_upstream)
    mine = situation.gpu_targets or TARGETS_OF_FAMILY.get(situation.gpu or "", ())
    serves = not mine or not listed or listed == (_NO_AOT,) or bool(set(listed) & set(mine))
    return situation.arch or (listed if serves else mine)


def _asked_for(case: Case) -> tuple[str, ...]:
    return targets_for(case.recipe, case.situation)


def aot_lists(case: Case) -> tuple[AotList, ...]:
    """Return the lists of targets that a build for XPU gives, or may give, to ocloc."""
    asked = _asked_for(case) if case.xpu else ()
    found = [AotList(asked)] if asked and asked != (_NO_AOT,) else []
    for fixed in case.recipe.arch_fixed if case.xpu else ():
        targets = asked if asked == tuple(fixed.unless) else tuple(fixed.targets)
        found.append(AotList(targets, holds(case, fixed.when), fixed.what, fixed.instead))
    return tuple(item for item in found if item.answer != "no")


def ocloc_reasons(case: Case) -> Iterator[Reason]:
    """Return what speaks against a build because the ocloc of this host does not know its targets."""
    lacks, driver = case.situation.ocloc_lacks, case.situation.driver or ""
    by_driver = _UNKNOWN_TO_OCLOC.get(driver, re.compile(r"(?!)"))
    whose = "ocloc here" if lacks is not None else f"the ocloc of driver {driver}"
    for item in aot_lists(case):
        unknown = [
            name for name in item.targets if (by_driver.fullmatch(name) if lacks is None else name in lacks)
        ]
        if unknown:
            here = f"{whose} does not know {', '.join(unknown)}"
            yield case.reason(
                "ocloc", "builds", "no" if item.answer == "yes" else "unknown",
                wanted=f"an ocloc that compiles {item.what or 'the kernels'} for {','.join(item.targets)}",
                found=here if not item.what else f"{here}, and --arch does not change these targets",
                todo=f"{item.instead or 'use other targets with --arch'}, or use the ocloc of a newer driver",
                path="arch_fixed" if item.what else "arch",
            )  # fmt: skip


def arch_reasons(case: Case) -> Iterator[Reason]:
    """Return what speaks against the AOT targets as they are named."""
    asked = _asked_for(case) if case.xpu else ()
    wrong = [problem for name in asked if (problem := _no_target(case, name, asked)) is not None]
    for found, todo in wrong:
        wanted = "AOT targets that ocloc knows"
        yield case.reason("arch", "builds", "no", wanted=wanted, found=found, todo=todo, path="arch")
    yield from _of_components(case, asked)
    mine = case.situation.gpu_targets or TARGETS_OF_FAMILY.get(case.situation.gpu or "", ())
    if wrong or not asked or not mine or set(asked) & set(mine):
        return
    without = asked == (_NO_AOT,)
    yield case.reason(
        "arch", "note", "no",
        wanted=f"{' or '.join(mine)} among the AOT targets for this GPU",
        found=("nothing is compiled ahead of time" if without else f"the list is {', '.join(asked)}")
        + ": kernels are compiled at first use, which is slow"
        + ("" if without else ", or are wrong"),
        todo=f"use --arch {','.join((*(() if without else asked), mine[0]))}",
        path="arch",
    )  # fmt: skip


def _of_components(case: Case, asked: tuple[str, ...]) -> Iterator[Reason]:
    """Return the components whose build has no name for a target."""
    families = {target: family for family, own in TARGETS_OF_FAMILY.items() for target in own}
    for name in case.situation.components or ():
        tables = case.recipe.components[name].build.arch.values() if name in case.recipe.components else ()
        unknown = [item for item in asked if item != _NO_AOT and any(item not in words for words in tables)]
        if unknown:
            shown = ", ".join(
                f"{item} (GPUs of the family {families.get(item, 'unknown')})" for item in unknown
            )
            known = " or ".join(dict.fromkeys(item for words in tables for item in words))
            yield case.reason(
                "arch", "builds", "no",
                wanted=f"{known} as AOT targets of {name}",
                found=f"its build does not know {shown}",
                todo=f"exclude {name}, or use other targets with --arch",
                path=f"components.{name}.build.arch",
            )  # fmt: skip


def _no_target(case: Case, name: str, asked: tuple[str, ...]) -> tuple[str, str] | None:
    """Return why a name in the list cannot be compiled for, after hours of compiling, and what to do."""
    release = case.recipe.release
    if name == _NO_AOT:
        if release is not None and Version(release) < _KNOWS_NONE:
            return f"only {_KNOWS_NONE} and later accept none", "use targets such as pvc"
        return (
            ("none cannot be combined with other targets", "use either none or targets")
            if asked[1:]
            else None
        )
    if _DEVICE.fullmatch(name):
        return None
    lower = name.lower()
    todo = f"write {lower}" if _DEVICE.fullmatch(lower) else "use targets such as pvc or bmg"
    return f"'{name}' is not a device name of ocloc", todo

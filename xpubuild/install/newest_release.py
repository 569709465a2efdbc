"""Chooses the release for ``install`` and ``plan`` without RECIPE: the newest that this host can build."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.errors import UnsatisfiableError
from xpubuild.frozen import frozen
from xpubuild.machine import oneapi_advice as advice
from xpubuild.machine.compilers import choose_compilers
from xpubuild.machine.host_report import HostReport
from xpubuild.machine.oneapi_constraint import specifier
from xpubuild.machine.oneapi_roots import candidates
from xpubuild.machine.python_choice import resolve_python
from xpubuild.machine.pythons import probe_python
from xpubuild.machine.readers import UNKNOWN
from xpubuild.recipe.compatible_host import CMAKE_ID, of_host
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.patches import line_of
from xpubuild.recipe.releases import Release
from xpubuild.recipe.situation import Situation, Verdict
from xpubuild.recipe.values import Target
from xpubuild.workspace.activation import ENTERED, read_receipt


@frozen
class Chosen:
    """The release that was taken, for which target, and why, in one line."""

    recipe: str
    target: Target
    why: str
    workspace: Path | None = None


def entered() -> Chosen | None:
    """Return what an entered shell means by a command without a recipe; None outside of one.

    Raises:
        UsageError: the active workspace has no readable receipt any more.
    """
    place = os.environ.get(ENTERED)
    return _recorded(Path(place), "the active workspace") if place else None


def built_in(workspace: Path) -> Chosen | None:
    """Return what a workspace that was named holds already; None where nothing was finished in it."""
    if not (workspace / "receipt.json").is_file():
        return None
    return _recorded(workspace, "the recipe of this workspace")


def _recorded(workspace: Path, why: str) -> Chosen:
    receipt = read_receipt(workspace)
    target: Target = "cpu" if receipt.get("summary", {}).get("target") == "cpu" else "xpu"
    return Chosen(str(receipt.get("recipe")), target, why, workspace)


def situation_for(host: HostReport, target: Target, python: str | None) -> Situation:
    """Return the situation with the interpreter and the compilers that a build would use.

    Raises:
        UsageError, ToolchainError: the interpreter that was named, or a compiler, is not there.
    """
    executable, known = resolve_python(python, base_environment()), host.python.selected
    asked = known is not None and known.executable == str(executable)
    version = (known if known is not None and asked else probe_python(executable)).version
    compilers = choose_compilers(None, caller=os.environ, system=host.os, known=host.compilers)
    kind = CMAKE_ID.get(compilers.cxx.kind, compilers.cxx.kind)
    return replace(
        of_host(host, target),
        python=None if version == UNKNOWN else (version,),
        gcc=compilers.cxx.version if kind == "GNU" else None,
        host_compiler=kind,
    )


def choose_release(
    known: Sequence[Release],
    host: HostReport,
    target: Target | None,
    situation: Situation,
    with_: Sequence[str] = (),
) -> Chosen:
    """Return the newest release that this host can build, of those that have the components ``with_``.

    A site's own recipe is never taken unasked, unless it stands in for a line under its name.

    Raises:
        UnsatisfiableError: there is neither GPU nor oneAPI and no target was named, or nothing can be built.
        ToolchainError: there is a GPU, or XPU was asked for, and no oneAPI.
    """
    found = target or _target(host, situation)
    situation = replace(situation, target=found)
    candidates_ = [item for item in known if _is_offered(item, found, with_)]
    if found == "xpu" and not situation.oneapi and candidates_:
        wanted = specifier(candidates_[0].recipe.needs.oneapi or "")
        raise advice.nothing_found([(str(path), origin) for path, origin in candidates(os.environ)], wanted)
    passed: list[str] = []
    unpinned: list[Release] = []
    for release in candidates_:
        against = _against(solve(release.recipe, situation))
        if not against and release.pinned:
            return Chosen(release.name, found, _why(release, found, passed))
        unpinned += [] if against else [release]
        asked = f"its commit is not in the recipe ('xpubuild install {release.name}' looks it up)"
        passed.append(f"{release.version}: {against or asked}")
    if unpinned:
        return Chosen(unpinned[0].name, found, _why(unpinned[0], found, []))
    raise UnsatisfiableError(
        f"this host can build no release for {found}",
        why="; ".join(passed) or "no recipe describes a release",
        fix="check the requirements of each release",
        commands=(f"xpubuild recipes matrix --here --target {found}", "xpubuild install quickstart"),
    )


def _is_offered(release: Release, target: Target, with_: Sequence[str]) -> bool:
    recipe = release.recipe
    return (
        recipe.release is not None
        and target in recipe.targets
        and release.line == line_of(recipe.release)
        and set(with_) <= set(recipe.components)
    )


def _target(host: HostReport, situation: Situation) -> Target:
    if situation.gpu is not None or situation.oneapi:
        return "xpu"
    others = sorted({gpu.name for gpu in host.gpus if gpu.name != UNKNOWN})
    raise UnsatisfiableError(
        "no recipe was specified, and this host has neither an Intel GPU nor oneAPI",
        why="without a recipe, the newest release for the GPU is built; no Intel GPU is on the PCI bus"
        + (f" ({', '.join(others)} is)" if others else "")
        + " and no oneAPI installation was found in the usual places",
        fix=(
            "pass a recipe; or use --target cpu to build the newest release for the CPU, or quickstart to "
            "build a small extension for a prebuilt torch; to build for a GPU of another machine, install "
            "oneAPI or pass it with --oneapi-root"
        ),
        commands=("xpubuild plan --target cpu", "xpubuild install quickstart", "xpubuild recipes matrix"),
    )


def _against(verdict: Verdict) -> str:
    """Return why a release is passed over; what is not known of where it runs does not count."""
    reasons = [item for item in verdict.reasons if item.concern == "builds" or item.answer == "no"]
    return "; ".join(reason.text for reason in reasons if reason.concern != "note")


def _why(release: Release, target: Target, passed: Sequence[str]) -> str:
    text = f"{release.version} is the newest release that this host can build for {target}"
    text += "" if release.pinned else " (its commit is looked up upstream)"
    return text + (f"; not chosen: {'; '.join(passed)}" if passed else "")

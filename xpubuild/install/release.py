"""Chooses the release for ``install`` and ``plan`` without RECIPE: the newest that this host can build."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from xpubuild.documents import plain
from xpubuild.engine.environment import base_environment
from xpubuild.errors import UnsatisfiableError
from xpubuild.frozen import frozen
from xpubuild.install.options import Options
from xpubuild.machine.compilers import choose_compilers
from xpubuild.machine.host_report import HostReport
from xpubuild.machine.oneapi_bundles import nothing_found
from xpubuild.machine.oneapi_installed import candidates
from xpubuild.machine.pythons import probe_python, resolve_python
from xpubuild.machine.readers import UNKNOWN
from xpubuild.recipe.compatible_host import CMAKE_ID, of_host
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.load import component_files, line_of
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.releases import Release, is_release, releases
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


def named(options: Options, host: Callable[[], HostReport]) -> tuple[Options, str]:
    """Return the options with a recipe, and why that one: the workspace's own, else the newest.

    Raises:
        UsageError: the active workspace has no readable receipt any more.
        UnsatisfiableError, ToolchainError: see ``choose_release``.
    """
    if options.recipe is not None:
        return options, ""
    chosen = built_in(options.workspace)
    if chosen is None:
        situation = situation_for(host(), options.target or "xpu", options.python)
        situation = replace(situation, cxx11_abi=options.abi)
        files = component_files() if options.with_ else {}
        with_ = [name for name in options.with_ if name not in files]
        chosen = choose_release(releases(), options.target, situation, with_)
    target, workspace = options.target or chosen.target, options.workspace or chosen.workspace
    return replace(options, recipe=chosen.recipe, target=target, workspace=workspace), chosen.why


def built_in(workspace: Path | None) -> Chosen | None:
    """Return what a workspace holds, that of an entered shell where none is named; None without any."""
    place, why = workspace, "the recipe of this workspace"
    if place is None and os.environ.get(ENTERED):
        place, why = Path(os.environ[ENTERED]), "the active workspace"
    elif place is None or not (place / "receipt.json").is_file():
        return None
    receipt = read_receipt(place)
    target: Target = "cpu" if receipt.get("summary", {}).get("target") == "cpu" else "xpu"
    return Chosen(str(receipt.get("recipe")), target, why, place)


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
    known: Sequence[Release], target: Target | None, situation: Situation, with_: Sequence[str] = ()
) -> Chosen:
    """Return the newest release that this host can build, of those that have the components ``with_``.

    One that upstream builds with the oneAPI of this host comes before those that it only tolerates.
    A site's own recipe is never taken unasked, unless it stands in for a line under its name.

    Raises:
        UnsatisfiableError: there is neither GPU nor oneAPI and no target was named, or nothing can be built.
        ToolchainError: there is a GPU, or XPU was asked for, and no oneAPI.
    """
    found = target or _target(situation)
    situation = replace(situation, target=found)
    candidates_ = [item for item in known if _is_offered(item, found, with_)]
    if found == "xpu" and not situation.oneapi and candidates_:
        raise nothing_found(candidates(os.environ), candidates_[0].recipe.needs.oneapi or "")
    passed: list[str] = []
    # Those that can be built: what upstream pairs with this oneAPI first, then what it tolerates.
    tolerated: list[tuple[Release, int]] = []
    for release in candidates_:
        verdict = solve(release.recipe, situation)
        against, line = _against(verdict), verdict.toolkit
        if not against:
            if release.pinned and (line is None or line.kind == "pairing"):
                return Chosen(release.name, found, _why(release, found, passed, paired=line is not None))
            tolerated.append((release, len(passed)))
            against = f"its commit is not in the recipe ('xpubuild install {release.name}' looks it up)"
            if release.pinned:
                against = f"oneAPI {verdict.oneapi} is tolerated by upstream; ask for it by name"
        passed.append(f"{release.version}: {against}")
    if tolerated:
        best, before = next((item for item in tolerated if item[0].pinned), tolerated[0])
        return Chosen(best.name, found, _why(best, found, passed[:before] if best.pinned else []))
    raise UnsatisfiableError(
        f"this host can build no release for {found}",
        why="; ".join(passed) or "no recipe describes a release",
        fix="check the requirements of each release",
        commands=(f"xpubuild recipes matrix --here --target {found}", "xpubuild install quickstart"),
    )


def _is_offered(release: Release, target: Target, with_: Sequence[str]) -> bool:
    recipe = release.recipe
    own = recipe.release is not None and release.line == line_of(recipe.release)
    return own and target in recipe.targets and set(with_) <= set(recipe.components)


def _target(situation: Situation) -> Target:
    if situation.gpu is not None or situation.oneapi:
        return "xpu"
    raise UnsatisfiableError(
        "no recipe was specified, and this host has neither an Intel GPU nor oneAPI",
        why="without a recipe, the newest release for the GPU is built",
        fix="pass a recipe, such as quickstart; or use --target cpu to build the newest release for the CPU;"
        " to build for a GPU of another machine, install oneAPI or pass it with --oneapi-root",
        commands=("xpubuild plan --target cpu", "xpubuild install quickstart", "xpubuild recipes matrix"),
    )


def _against(verdict: Verdict) -> str:
    """Return why a release is passed over; what is not known of where it runs does not count."""
    reasons = [item for item in verdict.reasons if item.concern == "builds" or item.answer == "no"]
    return "; ".join(reason.text for reason in reasons if reason.concern != "note")


def _why(release: Release, target: Target, passed: Sequence[str], *, paired: bool = False) -> str:
    text = f"{release.version} is the newest release that this host can build for {target}"
    text += ", with the oneAPI that upstream builds it with" if paired else ""
    text += "" if release.pinned else " (its commit is looked up upstream)"
    return text + (f"; not chosen: {'; '.join(passed)}" if passed else "")


_MOST = 4


def refused(recipe: Recipe, verdict: Verdict) -> UnsatisfiableError:
    """Return the error for a verdict that says no."""
    against = verdict.against()
    verb = "be built" if verdict.builds == "no" else "run"
    why = "; ".join(reason.text for reason in against)
    fix = "; ".join(dict.fromkeys(reason.todo for reason in against if reason.todo))
    return UnsatisfiableError(f"'{recipe.name}' cannot {verb} here", why=why, fix=fix)


def with_alternatives(
    error: UnsatisfiableError, recipe: Recipe, options: Options, host: HostReport
) -> UnsatisfiableError:
    """Return the error with the releases that would work here; unchanged where no constraint is behind it."""
    if not is_release(recipe):
        return error
    found = situation_for(host, options.target or recipe.target, options.python)
    # That no oneAPI is installed is an error of its own; here it would hide what else fits.
    arch = options.named_arch or None
    situation = replace(found, oneapi=found.oneapi or None, cxx11_abi=options.abi, arch=arch)
    verdict = solve(recipe, situation)
    if not verdict.refused:
        return error
    free = replace(situation, components=None)
    others = [
        item
        for item in releases()
        if item.recipe.name != recipe.name and item.recipe.release and not solve(item.recipe, free).refused
    ]
    names = [item.name for item in others]
    works = "this host and these options rule out every other release too"
    plan = "xpubuild recipes matrix --here"
    if others:
        more = f" and {len(names) - _MOST} older" if len(names) > _MOST else ""
        works = f"releases that nothing known rules out here: {', '.join(names[:_MOST])}{more}"
        given = {"--target": options.target, "--python": options.python, "--cxx11-abi": options.cxx11_abi}
        words = [word for name, value in given.items() if value is not None for word in (name, value)]
        # The newest release whose commit is known, so that planning it needs no network.
        first = next((item.name for item in others if item.pinned), names[0])
        plan = shlex.join(("xpubuild", "plan", first, *words))
    against = verdict.against()
    error.why = error.why or "; ".join(reason.text for reason in against)
    error.fix = f"{error.fix}; {works}" if error.fix else works
    error.commands = (*error.commands, plan)
    error.evidence = {"constraints": plain(against), "would_fit": names}
    return error

"""The offline compiler of a build: found and tried in the build's environment, before hours of compiling."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from xpubuild.engine.environment import base_environment
from xpubuild.errors import ToolchainError
from xpubuild.install.request import Choice
from xpubuild.install.site_folders import LIBRARIES, OPTIONS, PATH
from xpubuild.machine.compilers import other_versions
from xpubuild.machine.ocloc import driver_folders, find_ocloc, try_ocloc
from xpubuild.machine.packages import install_commands, package_names
from xpubuild.machine.system import OsFacts
from xpubuild.recipe.aot_targets import AotList, aot_lists
from xpubuild.recipe.conditions import Case
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.situation import Situation


def lists_of(recipe: Recipe, choice: Choice, gcc: str | None) -> tuple[AotList, ...]:
    """Return the lists of AOT targets that the build gives to ocloc."""
    situation = Situation(target=choice.target, arch=choice.arch or None, gcc=gcc)
    return aot_lists(Case(recipe, situation, None, None))


def unknown_targets(
    lists: tuple[AotList, ...], environment: Mapping[str, str], caller: Mapping[str, str], system: OsFacts
) -> tuple[str, ...] | None:
    """Return the AOT targets that ocloc does not compile; None for a build that compiles for none.

    ``environment`` is the build's, whole; ``caller`` is searched for what the build does not get.

    Raises:
        ToolchainError: ocloc is missing, or compiles nothing in that environment.
    """
    if not lists:
        return None
    program = find_ocloc(environment)
    if program is None:
        raise _missing(lists, environment, system)
    unknown: dict[str, None] = {}
    for targets in dict.fromkeys(item.targets for item in lists):
        answer = try_ocloc(program, targets, environment)
        if not answer.ok and not answer.unknown:
            raise _broken(program, targets, answer.words, caller, environment)
        unknown |= dict.fromkeys(answer.unknown)
    return tuple(unknown)


def _missing(lists: tuple[AotList, ...], environment: Mapping[str, str], system: OsFacts) -> ToolchainError:
    targets = ", ".join(dict.fromkeys(name for item in lists for name in item.targets))
    return ToolchainError(
        "ocloc, the GPU driver's offline compiler, was not found",
        why=f"the build compiles kernels ahead of time for {targets}; without it the link fails after hours",
        fix=f"install {package_names('ocloc', system)}; if a module has it, load the module, or name the "
        f"folder of ocloc with {OPTIONS[PATH]} and that of its libraries with {OPTIONS[LIBRARIES]}",
        commands=install_commands("ocloc", system),
        evidence={"PATH": environment.get("PATH", ""), "targets": targets},
    )


def _broken(
    program: str,
    targets: tuple[str, ...],
    words: str,
    caller: Mapping[str, str],
    environment: Mapping[str, str],
) -> ToolchainError:
    """Return the error for an ocloc that compiles nothing; of one of a module, which folders it lacks."""
    theirs = {**environment, LIBRARIES: caller.get(LIBRARIES, "")}
    folders = driver_folders(theirs[LIBRARIES])
    works = bool(folders) and not _says_nothing(program, targets, theirs)
    option = f"{OPTIONS[LIBRARIES]} {shlex.quote(':'.join(folders))}"
    return ToolchainError(
        f"{program} does not compile kernels in the environment of the build",
        why=f"it said: {words}"
        + ("; with the LD_LIBRARY_PATH of this shell, which builds do not get, it works" if works else ""),
        fix=f"pass the folders of the driver's libraries on with {option}"
        if works
        else "reinstall it with its graphics compiler (intel-igc), or use another with "
        f"{OPTIONS[PATH]} and {OPTIONS[LIBRARIES]}",
        commands=(f"export XPUBUILD_EXTRA_LIBRARY_PATH={shlex.quote(':'.join(folders))}",) if works else (),
        evidence={"ocloc": program, "targets": ",".join(targets), "said": words},
    )


def _says_nothing(program: str, targets: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    answer = try_ocloc(program, targets, environment)
    return not answer.ok and not answer.unknown


def older_gcc(
    recipe: Recipe, against: Sequence[Mapping[str, str]], caller: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the line that selects an installed GCC without the kernels whose targets ocloc does not know.

    ``against`` are the constraints that rule the build out, as documents have them.
    """
    for fixed in recipe.arch_fixed:
        ruled_out = any(item["constraint"] == "ocloc" and fixed.what in item["wanted"] for item in against)
        if ruled_out and "gcc" in fixed.when:
            search_path = base_environment(caller)["PATH"]
            return other_versions(recipe.needs.gcc or "", search_path, without=fixed.when["gcc"])
    return ()

"""oneAPI and the GPU driver's offline compiler as one build for XPU gets them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace

from xpubuild.engine.environment import base_environment
from xpubuild.engine.fingerprint import digest
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.install.options import Options
from xpubuild.install.target import Choice, OneapiFacts
from xpubuild.machine.envdiff import PathChange, apply
from xpubuild.machine.ocloc import driver_folders, find_ocloc, try_ocloc
from xpubuild.machine.oneapi_environment import oneapi_environment
from xpubuild.machine.oneapi_select import OneapiNeeds
from xpubuild.machine.system import OsFacts, install_commands, package_names
from xpubuild.recipe.aot_targets import aot_lists
from xpubuild.recipe.conditions import Case
from xpubuild.recipe.situation import Situation

PATH, LIBRARIES = "PATH", "LD_LIBRARY_PATH"
#: Option that names folders of a search path.
OPTIONS = {PATH: "--extra-path", LIBRARIES: "--extra-library-path"}


def site_folders(options: Options) -> dict[str, tuple[str, ...]]:
    """Return the folders of a site that builds for XPU search too, by variable: those of modules, mostly.

    Raises:
        UsageError: a folder is not there.
    """
    given = {PATH: options.extra_path, LIBRARIES: options.extra_library_path}
    for name, folders in given.items():
        option, missing = OPTIONS[name], [folder for folder in folders if not folder.is_dir()]
        if missing:
            fix = f"correct {option} (XPUBUILD_{option[2:].upper().replace('-', '_')} is the same option)"
            raise UsageError(f"{option} {missing[0]} is not a folder", fix=fix)
    return {name: tuple(map(str, folders)) for name, folders in given.items() if folders}


def oneapi_facts(choice: Choice) -> OneapiFacts | None:
    """Return the oneAPI environment of a build with the folders of the site; None for a recipe without.

    Raises:
        UsageError: a folder of the options is not there.
        XpuBuildError: see ``oneapi_environment``.
    """
    options, needs = choice.options, choice.recipe.needs
    folders = site_folders(options)
    if needs.oneapi is None:
        return None
    beside = tuple(needs.oneapi_beside_compiler)
    captured = oneapi_environment(
        OneapiNeeds(needs.oneapi, tuple(needs.oneapi_components), beside, tuple(needs.oneapi_optional)),
        explicit_root=options.oneapi_root,
        caller_env=os.environ,
        mode=options.oneapi_mode,
    )
    paths = dict(captured.diff.paths)
    for name, more in folders.items():
        # Behind what oneAPI puts in front.
        change = paths.get(name, PathChange())
        paths[name] = replace(change, prepend=tuple(dict.fromkeys((*change.prepend, *more))))
    difference, base = replace(captured.diff, paths=paths), base_environment()
    whole = apply(difference, base)
    known = {*base.get(PATH, "").split(os.pathsep)} - {*folders.get(PATH, ())}
    front = tuple(item for item in whole.get(PATH, "").split(os.pathsep) if item and item not in known)
    return OneapiFacts(
        env={name: value for name, value in whole.items() if name != PATH and base.get(name) != value},
        path_prefix=front,
        difference=difference.to_json(), compiler_version=captured.compiler_version,
        digest=digest({"oneapi": captured.digest, "folders": folders}) if folders else captured.digest,
        components=tuple(
            {"name": one.name, "version": one.version, "path": str(one.path)} for one in captured.components
        ),
        warnings=captured.warnings,
    )  # fmt: skip


def ocloc_lacks(choice: Choice, gcc: str, oneapi: OneapiFacts, system: OsFacts) -> tuple[str, ...] | None:
    """Return the AOT targets that the build's ocloc does not compile, tried in the build's environment.

    None for a build that compiles for none.

    Raises:
        ToolchainError: the build needs ocloc, and there it is missing or compiles nothing.
    """
    situation = Situation(target=choice.device, arch=choice.arch or None, gcc=gcc)
    lists = tuple(item.targets for item in aot_lists(Case(choice.recipe, situation)))
    return unknown_targets(lists, oneapi.over(base_environment()), system) if lists else None


def unknown_targets(
    lists: tuple[tuple[str, ...], ...], environment: Mapping[str, str], system: OsFacts
) -> tuple[str, ...]:
    """Return which of some lists of AOT targets ocloc does not compile.

    ``environment`` is the build's, whole; that of the caller is searched for what the build does not get.

    Raises:
        ToolchainError: ocloc is missing, or compiles nothing in that environment.
    """
    program = find_ocloc(environment)
    if program is None:
        targets = ", ".join(dict.fromkeys(name for item in lists for name in item))
        raise ToolchainError(
            "ocloc, the GPU driver's offline compiler, was not found",
            why=f"the build compiles kernels ahead of time for {targets}; without it the link fails after"
            " hours",
            fix=f"install {package_names('ocloc', system)}; if a module has it, load the module, or name the "
            f"folder of ocloc with {OPTIONS[PATH]} and that of its libraries with {OPTIONS[LIBRARIES]}",
            commands=install_commands("ocloc", system),
        )
    unknown: dict[str, None] = {}
    for targets_ in dict.fromkeys(lists):
        answer = try_ocloc(program, targets_, environment)
        if not answer.ok and not answer.unknown:
            raise _broken(program, targets_, answer.words, environment)
        unknown |= dict.fromkeys(answer.unknown)
    return tuple(unknown)


def _broken(
    program: str, targets: tuple[str, ...], words: str, environment: Mapping[str, str]
) -> ToolchainError:
    """Return the error for an ocloc that compiles nothing; of one of a module, which folders it lacks."""
    theirs = os.environ.get(LIBRARIES, "")
    folders, why = shlex.quote(":".join(driver_folders(theirs))), f"its output: {words}"
    fix = "reinstall it with its graphics compiler (intel-igc), or use another with "
    fix, commands = f"{fix}{OPTIONS[PATH]} and {OPTIONS[LIBRARIES]}", tuple[str, ...]()
    if driver_folders(theirs) and try_ocloc(program, targets, {**environment, LIBRARIES: theirs}).ok:
        why += "; with the LD_LIBRARY_PATH of this shell, which builds do not get, it works"
        fix = f"pass the folders of the driver's libraries on with {OPTIONS[LIBRARIES]} {folders}"
        commands = (f"export XPUBUILD_EXTRA_LIBRARY_PATH={folders}",)
    what = f"{program} does not compile kernels in the environment of the build"
    return ToolchainError(what, why=why, fix=fix, commands=commands)

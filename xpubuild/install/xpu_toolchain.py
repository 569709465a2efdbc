"""oneAPI and the GPU driver's offline compiler as one build for XPU gets them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from xpubuild.artifacts.elf import is_elf, read_shared_object
from xpubuild.artifacts.linkage import DRIVER_LIBRARIES, Linker, Missing
from xpubuild.engine.environment import base_environment
from xpubuild.engine.fingerprint import digest
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.install.options import Options
from xpubuild.install.target import Choice, OneapiFacts
from xpubuild.machine.compilers import other_versions
from xpubuild.machine.envdiff import PathChange, apply
from xpubuild.machine.ocloc import driver_folders, find_ocloc, try_ocloc
from xpubuild.machine.oneapi_bundles import COMPILER
from xpubuild.machine.oneapi_environment import OneapiEnvironment, oneapi_environment
from xpubuild.machine.oneapi_select import OneapiNeeds
from xpubuild.machine.packages import install_commands, package_names
from xpubuild.machine.system import OsFacts
from xpubuild.recipe.aot_targets import AotList, aot_lists
from xpubuild.recipe.conditions import Case
from xpubuild.recipe.model import Recipe
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
            raise UsageError(
                f"{option} {missing[0]} is not a folder",
                fix=f"correct {option} (XPUBUILD_{option[2:].upper().replace('-', '_')} is the same option)",
            )
    return {name: tuple(map(str, folders)) for name, folders in given.items() if folders}


def extended(
    paths: Iterable[tuple[str, PathChange]], folders: dict[str, tuple[str, ...]]
) -> dict[str, PathChange]:
    """Return the changes of search paths with a site's folders behind those that are put in front."""
    found = dict(paths)
    for name, more in folders.items():
        change = found.get(name, PathChange())
        ours = tuple(item for item in more if item not in change.prepend)
        found[name] = PathChange((*change.prepend, *ours), change.append, change.remove)
    return found


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
    captured = oneapi_environment(
        OneapiNeeds(
            versions=needs.oneapi,
            components=tuple(needs.oneapi_components),
            beside_compiler=tuple(needs.oneapi_beside_compiler),
            optional=tuple(needs.oneapi_optional),
        ),
        explicit_root=options.oneapi_root,
        caller_env=os.environ,
        mode=options.oneapi_mode,
    )
    difference = replace(captured.diff, paths=extended(captured.diff.paths.items(), folders))
    base = base_environment()
    whole = apply(difference, base)
    known = {*base.get("PATH", "").split(os.pathsep)} - {*folders.get("PATH", ())}
    front = tuple(item for item in whole.get("PATH", "").split(os.pathsep) if item and item not in known)
    return OneapiFacts(
        env={name: value for name, value in whole.items() if name != "PATH" and base.get(name) != value},
        path_prefix=front,
        difference=difference.to_json(),
        digest=digest({"oneapi": captured.digest, "folders": folders}) if folders else captured.digest,
        compiler_version=captured.compiler_version,
        components=tuple(
            {"name": item.name, "version": item.version, "path": str(item.path)}
            for item in captured.components
        ),
        warnings=(*captured.warnings, *lost_adapters(captured, whole)),
    )


def ocloc_lacks(choice: Choice, gcc: str, oneapi: OneapiFacts, system: OsFacts) -> tuple[str, ...] | None:
    """Return the AOT targets that the build's ocloc does not compile, tried in the build's environment.

    None for a build that compiles for none.

    Raises:
        ToolchainError: the build needs ocloc, and there it is missing or compiles nothing.
    """
    situation = Situation(target=choice.device, arch=choice.arch or None, gcc=gcc)
    lists = aot_lists(Case(choice.recipe, situation, None, None))
    return unknown_targets(lists, oneapi.over(base_environment()), os.environ, system) if lists else None


_ADAPTERS = "libur_adapter_level_zero*.so.*"


def lost_adapters(oneapi: OneapiEnvironment, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning if an adapter of the compiler needs libraries that it does not find.

    Libraries of the driver and its loader are left out: a host that only builds has none.

    Raises:
        AuditError: a library on the way is damaged.
    """
    search = [
        Path(item) for item in environment.get("LD_LIBRARY_PATH", "").split(":") if item.startswith("/")
    ]
    folders = [item.path / "lib" for item in oneapi.components if item.name == COMPILER]
    found: dict[str, Missing] = {}
    for path in {file.resolve() for folder in folders for file in folder.glob(_ADAPTERS)}:
        if is_elf(path):
            closure = Linker({str(path): read_shared_object(path)}, search=search).closure(str(path))
            found |= {item.library: item for item in closure.missing if not _is_of_the_driver(item.library)}
    return (_lost_words(sorted(found.values(), key=lambda item: item.library)),) if found else ()


def _is_of_the_driver(library: str) -> bool:
    return any(fnmatchcase(library, pattern) for pattern in DRIVER_LIBRARIES)


def _lost_words(missing: Sequence[Missing]) -> str:
    named = ", ".join(f"{item.library} (needed by {Path(item.chain[-1]).name})" for item in missing)
    hwloc = any("hwloc" in item.library for item in missing)
    return (
        f"not found: {named}; the SYCL runtime then drops its adapter for Level Zero without a message and"
        " finds no GPU" + ("; install oneAPI's tcm, or libhwloc15 of the distribution" if hwloc else "")
    )


def unknown_targets(
    lists: tuple[AotList, ...], environment: Mapping[str, str], caller: Mapping[str, str], system: OsFacts
) -> tuple[str, ...]:
    """Return the AOT targets that ocloc does not compile.

    ``environment`` is the build's, whole; ``caller`` is searched for what the build does not get.

    Raises:
        ToolchainError: ocloc is missing, or compiles nothing in that environment.
    """
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

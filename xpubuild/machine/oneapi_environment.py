"""The oneAPI environment of a plan: find, choose, capture, and prove that it is the requested one."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from xpubuild.engine.fingerprint import digest
from xpubuild.engine.process import query
from xpubuild.errors import ToolchainError, UnsatisfiableError
from xpubuild.frozen import frozen
from xpubuild.machine import oneapi_bundles as bundles
from xpubuild.machine.envdiff import PATH_LIKE, EnvDiff
from xpubuild.machine.oneapi_bundles import COMPILER
from xpubuild.machine.oneapi_capture import DEADLINE_S, Capture, capture
from xpubuild.machine.oneapi_installed import (
    LATEST,
    SETVARS,
    UNIFIED_ENTRY,
    Component,
    Installation,
    candidates,
    enclosing,
    find_installations,
)
from xpubuild.machine.oneapi_select import Mode, OneapiNeeds, Selection, select_first
from xpubuild.machine.oneapi_trust import OWNERS_VARIABLE, owners
from xpubuild.machine.readers import exists, is_dir, is_file, resolved

_COMPILERS = ("icx", "icpx")
_VERSION = re.compile(r"Compiler (?P<version>\d+\.\d+(?:\.\d+)*)")
_ASK_S = 60.0
#: What names the folder of a component whose script is not run, in place of ``latest``: MKLROOT for
#: FindONEMKL, INTEL_MKL_DIR for FindMKL of PyTorch. Not MKL_DIR: the MKL of the CPU is the environment's.
_NAMED_BY = {"mkl": ("MKLROOT", "INTEL_MKL_DIR")}


@frozen
class OneapiEnvironment:
    """A oneAPI environment that was proved usable.

    ``diff`` is applied to the environment of build steps with ``envdiff.apply``. ``digest`` changes with the
    chosen versions, the compiler's own version and everything that is set; it is meant for fingerprints.
    """

    root: Path
    components: tuple[Component, ...]
    diff: EnvDiff
    warnings: tuple[str, ...]
    digest: str
    compiler_version: str | None = None
    mode: Mode = "components"


def oneapi_environment(
    needs: OneapiNeeds,
    *,
    explicit_root: Path | None,
    caller_env: Mapping[str, str],
    mode: Mode = "components",
    deadline_s: float = DEADLINE_S,
) -> OneapiEnvironment:
    """Return the environment that a recipe needs, captured from an installation of this machine.

    ``mode``: "components" sources the components' own scripts in the order of the needs (the default, and
    what PyTorch's maintainers do), "setvars" the whole setvars.sh, "unified" a toolkit's oneapi-vars.sh. An
    installation that has the compiler in the unified layout alone is always sourced that way.

    Raises:
        UsageError: ``explicit_root`` is not an installation.
        UnsatisfiableError: what is installed breaks the recipe's constraint.
        ToolchainError: nothing is installed, a component is missing, the scripts do not do their work, or two
            installations or versions are mixed.
    """
    places = find_installations(explicit_root, caller_env)
    if not places:
        raise bundles.nothing_found(candidates(caller_env), needs.versions)
    chosen = select_first(places, needs, mode)
    scripts, also_sourced = _scripts(chosen)
    captured = capture(
        scripts,
        caller_env,
        chosen.place.real,
        also_sourced=also_sourced,
        owners=owners(caller_env.get(OWNERS_VARIABLE, "")),
        deadline_s=deadline_s,
    )
    version = _validated(captured, chosen, needs.versions)
    named = {name: str(item.path) for item in chosen.beside for name in _NAMED_BY.get(item.name, ())}
    difference = replace(captured.diff, set={**named, **captured.diff.set})
    components = (*chosen.components, *chosen.beside)
    identity = {
        "root": str(chosen.place.real),
        "mode": chosen.mode,
        "compiler_version": version,
        "components": [[item.name, item.version, str(item.path)] for item in components],
        "diff": difference.to_json(),
    }
    warnings = (*_several(places, chosen.place), *chosen.warnings, *captured.warnings, *_odd(captured.diff))
    return OneapiEnvironment(
        root=chosen.place.path,
        components=components,
        diff=difference,
        warnings=warnings,
        digest=digest(identity),
        compiler_version=version,
        mode=chosen.mode,
    )


def _scripts(chosen: Selection) -> tuple[list[Path], list[Path]]:
    """Return the scripts to source, and those that they source by themselves.

    Raises:
        ToolchainError: the entry script that the mode needs is not there.
    """
    own = [component.script for component in chosen.components if component.layout == "component"]
    if chosen.mode == "components":
        return own, []
    if chosen.mode == "setvars":
        scripts = [chosen.place.real / SETVARS]
        further = [item.script for item in chosen.place.components if item.is_latest]
    else:
        toolkits = dict.fromkeys(item.path for item in chosen.components if item.layout == "unified")
        scripts = [*(path / UNIFIED_ENTRY for path in toolkits), *own]
        further = [item.script for item in chosen.place.components if item.path in toolkits]
    for script in scripts:
        if not is_file(script):
            raise ToolchainError(
                f"{script} does not exist",
                why=f"--oneapi-mode {chosen.mode} runs it to set up the environment",
                fix="use --oneapi-mode components, which is the default, or reinstall oneAPI",
            )
    return scripts, further


def _several(places: tuple[Installation, ...], used: Installation) -> Iterator[str]:
    others = [str(place.path) for place in places if place is not used]
    if others:
        yield f"using oneAPI of {used.path} ({used.origin}); also found: {', '.join(others)}"


def _odd(difference: EnvDiff) -> Iterator[str]:
    """Yield what is strange about search paths; a relative entry is looked up wherever a compiler runs."""
    for name, change in sorted(difference.paths.items()):
        for entry in (*change.prepend, *change.append):
            if name in PATH_LIKE and entry and not entry.startswith(("/", "%")):
                yield f"the scripts put the relative path '{entry}' into {name}"
            elif name == "PATH" and not is_dir(Path(entry)):
                yield f"the scripts put {entry} on PATH, which does not exist"


def _validated(captured: Capture, chosen: Selection, versions: str) -> str | None:
    """Prove that the environment is that of the chosen components; return the compiler's own version."""
    _require_one_root(captured, chosen)
    compiler = chosen.get(COMPILER)
    version = _require_compiler(captured, compiler, versions) if compiler is not None else None
    for component in chosen.components:
        for name, path in _folders(captured):
            above = component.path.parent
            mine = component.layout != "component" or path.is_relative_to(component.path)
            if not mine and path.is_relative_to(above) and path != above:
                other = path.relative_to(above).parts[0]
                raise ToolchainError(
                    f"the environment mixes {component.name} {component.version} and {other}",
                    why=f"{name} points to {path}, but {component.path} was chosen",
                    fix=f"change {above / LATEST} to point to the right version, or remove the other one",
                    commands=(shlex.join(["ls", "-l", str(above)]),),
                    evidence={"variable": name, "path": str(path), "chosen": str(component.path)},
                )
    return version


def _folders(captured: Capture) -> Iterator[tuple[str, Path]]:
    """Yield (variable, path without links) of every existing path that the scripts set or added."""
    values = [*captured.diff.set.items()]
    for name, change in captured.diff.paths.items():
        values += [(name, entry) for entry in (*change.prepend, *change.append)]
    for name, value in values:
        if value.startswith("/") and "\n" not in value and exists(Path(value)):
            yield name, resolved(Path(value))


def _require_one_root(captured: Capture, chosen: Selection) -> None:
    own = {component.root for component in chosen.components}
    where = "links of the chosen components point to both"
    for name, path in _folders(captured):
        if len(own) == 1 and not any(path.is_relative_to(folder) for folder in own):
            other = enclosing(path)
            if other is not None:
                own.add(other[2])
                where = f"{name} points to {path}"
    if len(own) > 1:
        raise ToolchainError(
            f"two oneAPI installations are mixed: {' and '.join(sorted(map(str, own)))}",
            why=f"{where}; libraries of two installations in one process cause undefined SYCL symbols",
            fix="remove the link or the line of the script that points to the other installation, or pass "
            "a complete installation with --oneapi-root",
            evidence={"roots": sorted(map(str, own)), "where": where},
        )


def _require_compiler(captured: Capture, compiler: Component, versions: str) -> str:
    value = captured.after.get("CMPLR_ROOT", "")
    evidence = {"CMPLR_ROOT": value, "scripts": list(captured.warnings), "output": list(captured.output)}
    if not value or not is_dir(Path(value)):
        raise ToolchainError(
            "the oneAPI scripts ran, but did not set up the compiler",
            why=f"CMPLR_ROOT is {value!r}, which is not a folder"
            if value
            else "CMPLR_ROOT is not set afterwards: the installation is empty or partly removed",
            fix="reinstall the compiler component, or pass another installation with --oneapi-root",
            evidence=evidence,
        )
    # A toolkit's compiler may name the toolkit's folder or the component's behind it.
    if resolved(Path(value)) not in (compiler.path, compiler.root / COMPILER / compiler.version):
        raise ToolchainError(
            f"the compiler script set CMPLR_ROOT to {value}, not to {compiler.path}",
            why="the script belongs to another version than its folder",
            fix="reinstall that version of the compiler",
            evidence=evidence,
        )
    asked = {name: _ask_version(name, captured.after, compiler) for name in _COMPILERS}
    for name, version in asked.items():
        if not SpecifierSet(versions).contains(version, prereleases=True):
            raise UnsatisfiableError(
                f"{name} of {compiler.path} is {version}, but the recipe needs {versions}",
                why="the folder's name does not have the patch release; the compiler reports it",
                fix=bundles.install_bundle(versions),
                commands=bundles.install_commands(versions),
                evidence={"version": str(version), "wanted": versions, "path": str(compiler.path)},
            )
    return str(asked[_COMPILERS[0]])


def _ask_version(name: str, environment: Mapping[str, str], compiler: Component) -> Version:
    found = shutil.which(name, path=environment.get("PATH", ""))
    own = compiler.path if compiler.layout == "component" else compiler.root
    if found is None or not resolved(Path(found)).is_relative_to(own):
        raise ToolchainError(
            f"the oneAPI environment finds another {name} than that of {compiler.path}",
            why=f"PATH has {found} first" if found else "it is not on PATH",
            fix="reinstall the compiler component",
            evidence={"PATH": environment.get("PATH", ""), "found": found},
        )
    result = query([found, "--version"], env={**environment, "LC_ALL": "C.UTF-8"}, deadline_s=_ASK_S)
    stated = _VERSION.search(result.stdout)
    if not result.ok or stated is None:
        ending = "timed out" if result.timed_out else f"exited with code {result.returncode}"
        printed = (result.stderr or result.stdout).strip()[-400:]
        raise ToolchainError(
            f"'{found} --version' did not state a version",
            why=f"it {ending}: {printed or 'no output'}",
            fix="run the command by hand; the usual cause is a missing shared library",
            commands=(shlex.join([found, "--version"]),),
            evidence={"status": result.returncode, "said": printed},
        )
    return Version(stated["version"])

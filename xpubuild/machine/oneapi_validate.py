"""Checks whether a captured environment is the requested one; exit codes do not show that."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.version import Version

from xpubuild.engine.process import query
from xpubuild.errors import ToolchainError, UnsatisfiableError
from xpubuild.frozen import frozen
from xpubuild.machine import oneapi_advice as advice
from xpubuild.machine.envdiff import PATH_LIKE
from xpubuild.machine.oneapi_capture import Capture
from xpubuild.machine.oneapi_components import COMPILER, Component
from xpubuild.machine.oneapi_constraint import specifier
from xpubuild.machine.oneapi_finding import Finding
from xpubuild.machine.oneapi_paths import exists, is_dir, is_file, real
from xpubuild.machine.oneapi_roots import COMPONENT_SCRIPT, UNIFIED_ENTRY
from xpubuild.machine.oneapi_selection import Selection

_COMPILERS = ("icx", "icpx")
_VERSION = re.compile(r"Compiler (?P<version>\d+\.\d+(?:\.\d+)*)")
_DEADLINE_S = 60.0


@frozen
class Validation:
    """What was found out: the compiler's own version ("2025.1.1") and what is odd."""

    compiler_version: str | None
    findings: tuple[Finding, ...]


def real_root(component: Component) -> Path:
    """Return the installation that a component's files really lie in."""
    return component.path.parent.parent if component.layout == "component" else component.path.parent


def _folders(capture: Capture) -> Iterator[tuple[str, Path]]:
    """Yield (variable, path without links) of every existing path that the scripts set or added."""
    for name, change in capture.diff.paths.items():
        for entry in (*change.prepend, *change.append):
            if entry.startswith("/") and exists(Path(entry)):
                yield name, real(entry)
    for name, value in capture.diff.set.items():
        if value.startswith("/") and "\n" not in value and exists(Path(value)):
            yield name, real(value)


def _enclosing_root(path: Path) -> Path | None:
    """Return the installation that ``path`` lies in: above a component's or a toolkit's folder."""
    for folder in (path, *path.parents):
        if is_file(folder / COMPONENT_SCRIPT):
            return folder.parent.parent
        if is_file(folder / UNIFIED_ENTRY):
            return folder.parent
    return None


def _check_one_root(capture: Capture, selection: Selection) -> None:
    own = {real_root(component) for component in selection.components}
    for name, path in _folders(capture):
        if any(path.is_relative_to(folder) for folder in own):
            continue
        other = _enclosing_root(path)
        if other is not None:
            own.add(other)
            where = f"{name} points to {path}"
            break
    else:
        where = "links of the chosen components point to both"
    if len(own) > 1:
        raise ToolchainError(
            f"two oneAPI installations are mixed: {' and '.join(sorted(map(str, own)))}",
            why=f"{where}; libraries of two installations in one process cause undefined SYCL symbols",
            fix=(
                "remove the link or the line of the script that points to the other installation, or pass "
                "a complete installation with --oneapi-root"
            ),
            evidence={"roots": sorted(map(str, own)), "where": where},
        )


def _check_versions(capture: Capture, selection: Selection) -> None:
    """Every path below a chosen component must lie in the chosen version of it."""
    for component in selection.components:
        if component.layout != "component":
            continue
        for name, path in _folders(capture):
            above = component.path.parent
            if path.is_relative_to(above) and path != above and not path.is_relative_to(component.path):
                other = path.relative_to(above).parts[0]
                raise ToolchainError(
                    f"the environment mixes {component.name} {component.version} and {other}",
                    why=f"{name} points to {path}, but {component.path} was chosen",
                    fix=f"change {above / 'latest'} to point to the right version, or remove the other one",
                    commands=(shlex.join(["ls", "-l", str(above)]),),
                    evidence={"variable": name, "path": str(path), "chosen": str(component.path)},
                )


def _check_compiler_root(capture: Capture, compiler: Component) -> None:
    value = capture.after.get("CMPLR_ROOT", "")
    told = [f"{status.script}: exit code {status.status}" for status in capture.statuses]
    evidence = {"CMPLR_ROOT": value, "scripts": told, "output": list(capture.noise)}
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
    behind = real_root(compiler) / COMPILER / compiler.version
    if real(value) not in (compiler.path, behind):
        raise ToolchainError(
            f"the compiler script set CMPLR_ROOT to {value}, not to {compiler.path}",
            why="the script belongs to another version than its folder",
            fix="reinstall that version of the compiler",
            evidence=evidence,
        )


def _ask_version(name: str, environment: Mapping[str, str], compiler: Component) -> Version:
    found = shutil.which(name, path=environment.get("PATH", ""))
    own = compiler.path if compiler.layout == "component" else real_root(compiler)
    if found is None or not real(found).is_relative_to(own):
        raise ToolchainError(
            f"the oneAPI environment finds another {name} than that of {compiler.path}",
            why=f"PATH has {found} first" if found else "it is not on PATH",
            fix="reinstall the compiler component",
            evidence={"PATH": environment.get("PATH", ""), "found": found},
        )
    result = query([found, "--version"], env={**environment, "LC_ALL": "C.UTF-8"}, deadline_s=_DEADLINE_S)
    stated = _VERSION.search(result.stdout)
    if not result.ok or stated is None:
        ending = "timed out" if result.timed_out else f"exited with code {result.returncode}"
        raise ToolchainError(
            f"'{found} --version' did not state a version",
            why=f"it {ending}: {(result.stderr or result.stdout).strip()[-400:] or 'no output'}",
            fix="run the command by hand; the usual cause is a missing shared library",
            commands=(shlex.join([found, "--version"]),),
            evidence={
                "status": result.returncode,
                "stdout": result.stdout[-2000:],
                "stderr": result.stderr[-2000:],
            },
        )
    return Version(stated["version"])


def _check_compiler(capture: Capture, compiler: Component, versions: str) -> str:
    _check_compiler_root(capture, compiler)
    asked = {name: _ask_version(name, capture.after, compiler) for name in _COMPILERS}
    wanted = specifier(versions)
    for name, version in asked.items():
        if not wanted.contains(version, prereleases=True):
            raise UnsatisfiableError(
                f"{name} of {compiler.path} is {version}, but the recipe needs {versions}",
                why="the folder's name does not have the patch release; the compiler reports it",
                fix=advice.install_bundle(wanted),
                commands=advice.install_commands(wanted),
                evidence={"version": str(version), "wanted": versions, "path": str(compiler.path)},
            )
    return str(asked[_COMPILERS[0]])


def _missing_entries(capture: Capture) -> tuple[Finding, ...]:
    change = capture.diff.paths.get("PATH")
    missing = (
        [entry for entry in (*change.prepend, *change.append) if not is_dir(Path(entry))] if change else []
    )
    return tuple(
        Finding("oneapi-path-missing", f"the scripts put {entry} on PATH, which does not exist")
        for entry in missing
    )


def _relative_entries(capture: Capture) -> tuple[Finding, ...]:
    """A relative entry is looked up in whatever folder a compiler happens to run in."""
    return tuple(
        Finding("oneapi-path-relative", f"the scripts put the relative path '{entry}' into {name}")
        for name, change in sorted(capture.diff.paths.items())
        for entry in (*change.prepend, *change.append)
        if name in PATH_LIKE and entry and not entry.startswith(("/", "%"))
    )


def validate(capture: Capture, selection: Selection, versions: str) -> Validation:
    """Check a captured environment against the chosen components and the constraint ``versions``.

    Raises:
        ToolchainError: nothing was set, a compiler does not run, two installations or versions are mixed.
        UnsatisfiableError: the compiler runs and its version breaks the constraint.
    """
    _check_one_root(capture, selection)
    compiler = selection.get(COMPILER)
    version = _check_compiler(capture, compiler, versions) if compiler is not None else None
    _check_versions(capture, selection)
    return Validation(version, (*_missing_entries(capture), *_relative_entries(capture)))

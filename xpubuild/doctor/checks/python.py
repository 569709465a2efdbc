"""The Python of the build or of torch: version, headers, setuptools, and pip's configuration."""

from __future__ import annotations

import configparser
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.fixes import as_root, install_command, recipe_options
from xpubuild.doctor.kit import BUILD, Look, Outcome, check, finding, ok, once, skip, todo, warn
from xpubuild.doctor.look.sites import facts_of, site
from xpubuild.frozen import frozen
from xpubuild.machine.pythons import PythonFacts, probe_python
from xpubuild.machine.readers import UNKNOWN, read_text
from xpubuild.machine.versions import fits, parse


@once
def interpreter(look: Look) -> PythonFacts | None:
    """Return the facts about the interpreter; one that is not in the report is run."""
    known = facts_of(look)
    return probe_python(look.python) if known is None and look.live and look.python is not None else known


@check("python.runs", live=True, families="M-python-build-tools")
def python_runs(look: Look) -> Outcome:
    """The selected Python interpreter runs.

    Starts the selected interpreter: `--python`, or that of the workspace, of `VIRTUAL_ENV` or of
    `CONDA_PREFIX`, or `python3` on `PATH`. It fails if the interpreter cannot run or is not a Python:
    for example a virtual environment whose base installation was removed or upgraded, or a version
    manager's shim without a version. Nothing that is installed for such an interpreter can be imported.

    If no interpreter was selected or is active, a `python3` on `PATH` that does not run is a warning.
    """
    facts = interpreter(look)
    if facts is None:
        return skip("no Python was found")
    if not facts.error:
        return ok(f"{facts.executable} runs", executable=facts.executable)
    fix = todo(
        "select a working interpreter with --python, or recreate the environment",
        f"{shlex.quote(facts.executable)} -I -c 'import sys; print(sys.version)'",
        *_other(look),
    )
    told = f"{facts.executable} is not a working Python: {facts.error}"
    # The first python3 on PATH is a guess: it was not selected.
    return finding(told, fix) if look.python is not None else warn(told, fix)


@check("python.version", profiles=BUILD, recipe=True, families="M-python-build-tools")
def python_version(look: Look) -> Outcome:
    """The recipe supports the Python version.

    Each PyTorch release supports a range of Python versions, and wheels exist only for those. Only
    CPython is supported. Use `--python` to select another interpreter.
    """
    facts = interpreter(look)
    if facts is None:
        return skip("no Python was found")
    name_another = todo("select another interpreter with --python", *_other(look))
    if facts.error:
        # One cause, one failure: python.runs reports it, machine.platform a 32-bit Python.
        return skip(f"{facts.executable} is not a working Python: {facts.error}")
    if facts.implementation not in ("CPython", UNKNOWN):
        return finding(f"{facts.executable} is {facts.implementation}, not CPython", name_another)
    wanted = look.wanted.needs.python if look.wanted else ""
    if fits(facts.version, wanted) == "no":
        detail = f"{facts.executable} is Python {facts.version}, the recipe needs {wanted}"
        return finding(detail, name_another, found=facts.version, wanted=wanted)
    return ok(f"Python {facts.version} ({facts.executable})", version=facts.version)


def _other(look: Look) -> tuple[str, ...]:
    wanted = look.wanted.needs.python if look.wanted else ""
    found = [item.executable for item in look.host.python.found if fits(item.version, wanted) == "yes"]
    return (f"xpubuild doctor{recipe_options(look)} --python {found[0]}",) if found else ()


@check("python.headers", families="M-python-build-tools N-run-time-jit-headers AH-missing-system-package")
def python_headers(look: Look) -> Outcome:
    """Python.h is installed.

    Every extension is compiled with `Python.h`: those of PyTorch, and at run time the launchers that
    Triton compiles for `torch.compile`. Distributions package it separately (`python3-dev`,
    `python3-devel`). The check uses the include folder that the interpreter reports.
    """
    facts = interpreter(look)
    if facts is None or facts.headers is None:
        return skip("no Python was found, or it could not be run")
    if facts.headers:
        return ok(f"{facts.include}/Python.h", include=facts.include)
    short = ".".join(facts.version.split(".")[:2])
    rhel = "python3-devel" if facts.executable.startswith("/usr/bin/python3") else f"python{short}-devel"
    commands = install_command(
        look, debian=[f"python{short}-dev"], rhel=[rhel], suse=[f"python{short.replace('.', '')}-devel"]
    )
    fix = todo(f"install the headers of Python {short}", *commands)
    return finding(f"{facts.include}/Python.h does not exist", fix, include=facts.include)


@check("python.setuptools", severity="warn", profiles=BUILD, families="M-python-build-tools")
def python_setuptools(look: Look) -> Outcome:
    """The installed setuptools is compatible.

    setuptools 80 turned `setup.py develop` into a wrapper of pip, and 82 removed `pkg_resources`:
    builds of older releases, and of many extensions, fail with them. `xpubuild install` installs the
    recipe's pinned setuptools into the workspace, so this only affects manual builds in the selected
    Python. With a recipe, the check uses its version range; without one, it reports a missing
    `pkg_resources` if a torch is installed.
    """
    python = site(look)
    dist = python.get("setuptools") if python else None
    if python is None or dist is None:
        return skip("setuptools is not installed in the selected Python")
    wanted = _range(look)
    if wanted and fits(dist.version, wanted) == "no":
        fix = todo(
            "xpubuild install is not affected; for a manual build, install a version in the recipe's range",
            f"{python.executable} -m pip install 'setuptools{wanted}'",
        )
        detail = (
            f"setuptools {dist.version} is installed, the recipe needs {wanted}; xpubuild installs its own"
        )
        return finding(detail, fix, version=dist.version, wanted=wanted)
    if not wanted and python.package("torch") is not None and fits(dist.version, ">=82") == "yes":
        line = f"{python.executable} -m pip install 'setuptools<82'"
        fix = todo("install an older version to compile such extensions", line)
        return finding(f"setuptools {dist.version} has no pkg_resources, which older extensions need", fix)
    return ok(f"setuptools {dist.version}", version=dist.version)


def _range(look: Look) -> str:
    """Return the range that the recipe's requirement files are made from, else the major that they pin."""
    if look.recipe is None:
        return ""
    names = look.recipe.recipe.toolchain.requirements
    files = [folder / name for name in names for folder in look.recipe.folders]
    for pattern, suffix in ((r"^setuptools([<>=!~][^\s#;]*)", ".in"), (r"^setuptools==([0-9.]+)", "")):
        for file in files:
            text = read_text(file.with_suffix(suffix) if suffix else file) or ""
            if found := re.search(pattern, text, re.MULTILINE):
                version = None if suffix else parse(found[1])
                return f"<{version.major + 1}" if version else found[1]
    return ""


#: Settings that make pip install into another place, nothing, or without dependencies.
_ELSEWHERE = {
    "target": "installs into another folder",
    "prefix": "installs below another prefix",
    "root": "installs below another root",
    "python": "installs for another interpreter",
}
_SWITCHES = {
    "user": "installs into the user's folder, which an environment does not see",
    "no-deps": "skips the dependencies of packages",
    "dry-run": "installs nothing",
    "no-binary": "builds everything from source",
}
_LISTS = {"constraint": "limits versions", "requirement": "adds requirements", "no-binary": "forbids wheels"}
_TRUE = frozenset({"1", "yes", "true", "on", "y", "t"})
#: Sections that count for what xpubuild runs: pip install, pip wheel, pip download.
_SECTIONS = ("global", "install", "wheel", "download")


@frozen
class _Setting:
    """One setting of pip: ``name`` as its long option without dashes, ``section`` is "" for a variable."""

    name: str
    value: str
    origin: str
    section: str = ""

    @property
    def meaning(self) -> str:
        """What is wrong with it, or nothing."""
        if self.value.strip() and (found := _ELSEWHERE.get(self.name) or _LISTS.get(self.name)):
            return found
        return _SWITCHES.get(self.name, "") if self.value.strip().lower() in _TRUE else ""


@check(
    "python.pip_constraints", profiles=BUILD, families="F-wrong-torch-or-triton-package M-python-build-tools"
)
def python_pip_constraints(look: Look) -> Outcome:
    """No setting changes what pip installs.

    Reads pip's configuration files (global, user, environment, `PIP_CONFIG_FILE`) and `PIP_` variables
    without running pip. `target`, `prefix`, `root`, `user`, `no-deps` and `dry-run` in a file affect
    every pip, including the one that xpubuild runs in the workspace: a failure. The same settings as
    variables are warnings, because xpubuild does not pass them on. Constraints are warnings, because
    they may be intended; a constraint on torch or triton decides which build a later `pip install` puts
    in place of the XPU build.
    """
    found = [item for item in (*_of_files(look), *_of_variables(look)) if item.meaning]
    if not found:
        return ok("no setting changes what pip installs")
    told = "; ".join(f"{item.name} ({item.origin}) {item.meaning}" for item in found)
    commands = dict.fromkeys(line for item in found for line in _take_out(look, item))
    evidence = {"settings": [f"{item.name} ({item.origin})" for item in found]}
    fix = todo("remove these settings while a workspace is built", *commands)
    # A file applies to every pip, including that of a build.
    hard = any(item.section and item.name not in _LISTS for item in found)
    return finding(told, fix, **evidence) if hard else warn(told, fix, **evidence)


def _take_out(look: Look, item: _Setting) -> tuple[str, ...]:
    """Return the command that removes a setting from its file or the environment."""
    if not item.section:
        return (f"unset {item.origin}",)
    line = f'"${{EDITOR:-vi}}" {shlex.quote(item.origin)}   # remove {item.name} from [{item.section}]'
    return as_root(look, line) if item.origin.startswith("/etc/") else (line,)


def _of_files(look: Look) -> Iterator[_Setting]:
    """Yield the settings in files, in the order of pip's documentation ("Configuration")."""
    for path in _files(look):
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(read_text(path, look.root) or "")
        except configparser.Error:
            continue
        for section in filter(parser.has_section, _SECTIONS):
            for name, value in parser.items(section):
                yield _Setting(name.replace("_", "-"), value, look.shown(path), section)


def _files(look: Look) -> Iterator[Path]:
    named, config = look.environ.get("PIP_CONFIG_FILE", ""), look.environ.get("XDG_CONFIG_HOME", "")
    if named == os.devnull:
        return
    folders = (look.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    yield from (look.path(named),) if named else ()
    yield from (look.path(folder) / "pip" / "pip.conf" for folder in folders)
    yield look.path("/etc/pip.conf")
    if look.home is not None:
        yield look.home / ".pip" / "pip.conf"
    mine = look.path(config) if config else look.home and look.home / ".config"
    if mine:
        yield mine / "pip" / "pip.conf"
    python = site(look)
    if python is not None and python.prefixes[0].name != "usr":
        yield python.prefixes[0] / "pip.conf"


def _of_variables(look: Look) -> Iterator[_Setting]:
    for name, value in look.environ.items():
        if name.startswith("PIP_") and name != "PIP_CONFIG_FILE" and value:
            yield _Setting(name.removeprefix("PIP_").lower().replace("_", "-"), value, name)

"""The Python of the build or of torch: version, headers, setuptools, and pip's configuration."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping

from xpubuild.doctor.fixes import install_command
from xpubuild.doctor.kit import BUILD, Look, Outcome, check, finding, ok, skip, todo, warn
from xpubuild.doctor.look.compatible import judged
from xpubuild.doctor.look.sites import interpreter, site
from xpubuild.errors import ToolchainError
from xpubuild.machine.readers import UNKNOWN, read_text
from xpubuild.machine.versions import fits
from xpubuild.supply.index.pipconf import files_with, pip_settings, switched_on


@check("python.runs", live=True)
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


@check("python.version", profiles=BUILD, recipe=True)
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
    if wrong := [item for item in judged(look, "python") if item.answer == "no"]:
        detail = f"{facts.executable} is Python {facts.version}; the recipe {wrong[0].text}"
        return finding(detail, name_another, found=facts.version, wanted=wrong[0].wanted)
    return ok(f"Python {facts.version} ({facts.executable})", version=facts.version)


def _other(look: Look) -> tuple[str, ...]:
    wanted = look.wanted.needs.python if look.wanted else ""
    found = [item.executable for item in look.host.python.found if fits(item.version, wanted) == "yes"]
    recipe = f" --recipe {shlex.quote(look.wanted.name)}" if look.wanted else ""
    return (f"xpubuild doctor{recipe} --python {found[0]}",) if found else ()


@check("python.headers")
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


@check("python.setuptools", severity="warn", profiles=BUILD)
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
    """Return the range of setuptools that the recipe's requirement files are made from; "" where none is."""
    if look.recipe is None:
        return ""
    files = (
        folder / name for name in look.recipe.recipe.toolchain.requirements for folder in look.recipe.folders
    )
    texts = (read_text(file.with_suffix(".in")) or "" for file in files)
    found = (re.search(r"^setuptools([<>=!~][^\s#;]*)", text, re.MULTILINE) for text in texts)
    return next((match[1] for match in found if match), "")


#: Settings that make pip install into another place, nothing, or without dependencies.
_CHANGES = {
    "target": "installs into another folder",
    "prefix": "installs below another prefix",
    "root": "installs below another root",
    "python": "installs for another interpreter",
    "user": "installs into the user's folder, which an environment does not see",
    "no-deps": "skips the dependencies of packages",
    "dry-run": "installs nothing",
}
_LIMITS = {"constraint": "limits versions", "requirement": "adds requirements", "no-binary": "forbids wheels"}
_SWITCHES = ("user", "no-deps", "dry-run")
_COMMANDS = ("install", "wheel", "download")  # the commands of pip that xpubuild runs


def _meanings(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        name: meaning
        for name, value in settings.items()
        if (meaning := _CHANGES.get(name) or _LIMITS.get(name))
        and (name not in _SWITCHES or switched_on(value))
    }


@check("python.pip_constraints", profiles=BUILD, live=True)
def python_pip_constraints(look: Look) -> Outcome:
    """No setting changes what pip installs.

    Reads pip's settings without running pip: those of its configuration files, in the sections `[global]`,
    `[install]`, `[wheel]` and `[download]`, and of `PIP_` variables.
    `target`, `prefix`, `root`, `user`, `no-deps` and `dry-run` in a file affect
    every pip, including the one that xpubuild runs in the workspace: a failure. The same settings as
    variables are warnings, because xpubuild does not pass them on. Constraints are warnings, because
    they may be intended; a constraint on torch or triton decides which build a later `pip install` puts
    in place of the XPU build. `pip config debug` shows which file has a setting.
    """
    # Each by itself: xpubuild drops the variables and still reads the files.
    files = {
        name: value
        for name, value in look.environ.items()
        if name == "PIP_CONFIG_FILE" or not name.startswith("PIP_")
    }
    in_files: dict[str, str] = {}
    try:
        for command in _COMMANDS:
            in_files.update(_meanings(pip_settings(files, ("global", command))))
    except ToolchainError as error:
        return finding(f"{error.what}: {error.why}", todo(error.fix, *error.commands))
    in_variables = _meanings(pip_settings({**look.environ, "PIP_CONFIG_FILE": os.devnull}))
    found = in_files | in_variables
    if not found:
        return ok("no setting changes what pip installs")
    origins = {
        name: [
            *(files_with(files, name, ("global", *_COMMANDS)) if name in in_files else ()),
            *([f"PIP_{name.upper().replace('-', '_')}"] if name in in_variables else ()),
        ]
        for name in found
    }
    told = "; ".join(
        f"pip's setting {name} {meaning} ({', '.join(origins[name])})" for name, meaning in found.items()
    )
    lines = [f"unset {origins[name][-1]}" for name in in_variables]
    fix = todo("remove the settings", *lines, *(["pip config debug"] if in_files else []))
    answer = finding if any(name in _CHANGES for name in in_files) else warn
    return answer(told, fix, settings=found)

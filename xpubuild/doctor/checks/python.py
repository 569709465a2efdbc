"""The Python of the build or of torch: version, headers, setuptools, and pip's configuration."""

from __future__ import annotations

import re
import shlex

from xpubuild.doctor.fixes import as_root, install_command, recipe_options
from xpubuild.doctor.kit import BUILD, Fix, Look, Outcome, check, finding, ok, once, skip, warn
from xpubuild.doctor.look.pip import Setting, settings
from xpubuild.doctor.look.sites import facts_of, site
from xpubuild.machine.pythons import PythonFacts, probe_python
from xpubuild.machine.readers import UNKNOWN, read_text
from xpubuild.recipe.versions import fits, parse

_SETUPTOOLS = "setuptools"


@once
def interpreter(look: Look) -> PythonFacts | None:
    """Return the facts about the interpreter; one that is not in the report is run."""
    known = facts_of(look)
    if known is None and look.live and look.python is not None:
        return probe_python(look.python)
    return known


@check("python.runs", live=True, families=("M-python-build-tools",))
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
    fix = Fix(
        "select a working interpreter with --python, or recreate the environment",
        (f"{shlex.quote(facts.executable)} -I -c 'import sys; print(sys.version)'", *_other(look)),
    )
    told = f"{facts.executable} is not a working Python: {facts.error}"
    # The first python3 on PATH is a guess: it was not selected.
    return finding(told, fix) if look.python is not None else warn(told, fix)


@check("python.version", profiles=BUILD, recipe=True, families=("M-python-build-tools",))
def python_version(look: Look) -> Outcome:
    """The recipe supports the Python version.

    Each PyTorch release supports a range of Python versions, and wheels exist only for those. Only
    CPython is supported. Use `--python` to select another interpreter.
    """
    facts = interpreter(look)
    if facts is None:
        return skip("no Python was found")
    name_another = Fix("select another interpreter with --python", _other(look))
    if facts.error:
        # One cause, one failure: python.runs reports it, machine.platform a 32-bit Python.
        return skip(f"{facts.executable} is not a working Python: {facts.error}")
    if facts.implementation not in ("CPython", UNKNOWN):
        return finding(f"{facts.executable} is {facts.implementation}, not CPython", name_another)
    wanted = look.recipe.recipe.needs.python if look.recipe else ""
    if fits(facts.version, wanted) == "no":
        detail = f"{facts.executable} is Python {facts.version}, the recipe needs {wanted}"
        return finding(detail, name_another, found=facts.version, wanted=wanted)
    return ok(f"Python {facts.version} ({facts.executable})", version=facts.version)


def _other(look: Look) -> tuple[str, ...]:
    wanted = look.recipe.recipe.needs.python if look.recipe else ""
    found = [item.executable for item in look.host.python.found if fits(item.version, wanted) == "yes"]
    named = recipe_options(look)
    return (f"xpubuild doctor{named} --python {found[0]}",) if found else ()


@check(
    "python.headers", families=("M-python-build-tools", "N-run-time-jit-headers", "AH-missing-system-package")
)
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
    joined = short.replace(".", "")
    fix = Fix(
        f"install the headers of Python {short}",
        install_command(
            look,
            debian=[f"python{short}-dev"],
            rhel=[
                "python3-devel" if facts.executable.startswith("/usr/bin/python3") else f"python{short}-devel"
            ],
            suse=[f"python{joined}-devel"],
        ),
    )
    return finding(f"{facts.include}/Python.h does not exist", fix, include=facts.include)


@check("python.setuptools", severity="warn", profiles=BUILD, families=("M-python-build-tools",))
def python_setuptools(look: Look) -> Outcome:
    """The installed setuptools is compatible.

    setuptools 80 turned `setup.py develop` into a wrapper of pip, and 82 removed `pkg_resources`:
    builds of older releases, and of many extensions, fail with them. `xpubuild install` installs the
    recipe's pinned setuptools into the workspace, so this only affects manual builds in the selected
    Python. With a recipe, the check uses its version range; without one, it reports a missing
    `pkg_resources` if a torch is installed.
    """
    python = site(look)
    dist = python.get(_SETUPTOOLS) if python else None
    if python is None or dist is None:
        return skip("setuptools is not installed in the selected Python")
    wanted = _range(look)
    if wanted:
        if fits(dist.version, wanted) == "no":
            fix = Fix(
                "xpubuild install is not affected; for a manual build, install a version in the"
                " recipe's range",
                (f"{python.executable} -m pip install 'setuptools{wanted}'",),
            )
            detail = f"setuptools {dist.version} is installed, the recipe needs {wanted}"
            return finding(f"{detail}; xpubuild installs its own", fix, version=dist.version, wanted=wanted)
    elif python.package("torch") is not None and fits(dist.version, ">=82") == "yes":
        fix = Fix(
            "install an older version to compile such extensions",
            (f"{python.executable} -m pip install 'setuptools<82'",),
        )
        return finding(f"setuptools {dist.version} has no pkg_resources, which older extensions need", fix)
    return ok(f"setuptools {dist.version}", version=dist.version)


def _range(look: Look) -> str:
    """Return the range that the recipe's requirement files are made from, else the major that they pin."""
    if look.recipe is None:
        return ""
    pinned = ""
    for name in look.recipe.recipe.toolchain.requirements:
        for folder in look.recipe.folders:
            source = read_text((folder / name).with_suffix(".in")) or ""
            if found := re.search(r"^setuptools([<>=!~][^\s#;]*)", source, re.MULTILINE):
                return found[1]
            text = read_text(folder / name) or ""
            if found := re.search(r"^setuptools==([0-9.]+)", text, re.MULTILINE):
                pinned = found[1]
    version = parse(pinned) if pinned else None
    return f"<{version.major + 1}" if version else ""


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


@check(
    "python.pip_constraints",
    profiles=BUILD,
    families=("F-wrong-torch-or-triton-package", "M-python-build-tools"),
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
    found = [item for item in settings(look) if _meaning(item)]
    if not found:
        return ok("no setting changes what pip installs")
    told = "; ".join(f"{item.name} ({item.origin}) {_meaning(item)}" for item in found)
    hard = [item for item in found if item.from_file and item.name not in _LISTS]
    commands = tuple(dict.fromkeys(line for item in found for line in _take_out(look, item)))
    evidence = {"settings": [f"{item.name} ({item.origin})" for item in found]}
    fix = Fix("remove these settings while a workspace is built", commands)
    return finding(told, fix, **evidence) if hard else warn(told, fix, **evidence)


def _take_out(look: Look, item: Setting) -> tuple[str, ...]:
    """Return the command that removes a setting from its file or the environment."""
    if not item.from_file:
        return (f"unset {item.origin}",)
    if not item.level:
        # pip config would use another file and report that the key does not exist.
        line = f'"${{EDITOR:-vi}}" {shlex.quote(item.origin)}   # remove {item.name} from [{item.section}]'
        return as_root(look, line) if item.origin.startswith("/etc/") else (line,)
    pip = "pip"
    if item.level == "--site":
        python = site(look)
        pip = f"{shlex.quote(str(python.executable))} -m pip" if python else pip
    line = f"{pip} config {item.level} unset {item.section}.{item.name}"
    return as_root(look, line) if item.level == "--global" else (line,)


def _meaning(item: Setting) -> str:
    if item.name in _ELSEWHERE and item.value.strip():
        return _ELSEWHERE[item.name]
    if item.name in _LISTS and item.value.strip():
        return _LISTS[item.name]
    return _SWITCHES[item.name] if item.name in _SWITCHES and item.on else ""

"""The Python of the build or of torch: version, headers, setuptools, and pip's configuration."""

from __future__ import annotations

import re
import shlex

from xpubuild.doctor.context import CheckContext
from xpubuild.doctor.fixes import as_root, install_command, recipe_options
from xpubuild.doctor.look.pip import Setting, settings
from xpubuild.doctor.look.sites import facts_of, site
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.machine.pythons import PythonFacts, probe_python
from xpubuild.machine.readers import UNKNOWN, read_text
from xpubuild.recipe.versions import fits, parse

_SETUPTOOLS = "setuptools"


def interpreter(context: CheckContext) -> PythonFacts | None:
    """Return the facts about the interpreter; one that is not in the report is run. For a probe."""
    known = facts_of(context)
    if known is None and context.live and context.python is not None:
        return probe_python(context.python)
    return known


class PythonRuns(Check):
    """The selected or active interpreter starts."""

    id = "python.runs"
    title = "The selected Python interpreter runs"
    families = ("M-python-build-tools",)
    live = True
    explanation = """
    Starts the selected interpreter: `--python`, or that of the workspace, of `VIRTUAL_ENV` or of
    `CONDA_PREFIX`, or `python3` on `PATH`. It fails if the interpreter cannot run or is not a Python:
    for example a virtual environment whose base installation was removed or upgraded, or a version
    manager's shim without a version. Nothing that is installed for such an interpreter can be imported.

    If no interpreter was selected or is active, a `python3` on `PATH` that does not run is a warning.
    """

    def run(self, context: CheckContext) -> Outcome:
        facts = context.probe(interpreter)
        if facts is None:
            return self.skip("no Python was found")
        if not facts.error:
            return self.ok(f"{facts.executable} runs", executable=facts.executable)
        fix = Fix(
            "select a working interpreter with --python, or recreate the environment",
            (f"{shlex.quote(facts.executable)} -I -c 'import sys; print(sys.version)'", *_other(context)),
        )
        told = f"{facts.executable} is not a working Python: {facts.error}"
        # The first python3 on PATH is a guess: it was not selected.
        return self.found(told, fix) if context.python is not None else self.warn(told, fix)


class PythonVersion(Check):
    """The recipe supports the interpreter."""

    id = "python.version"
    title = "The recipe supports the Python version"
    profiles = frozenset({"build"})
    recipe = True
    families = ("M-python-build-tools",)
    explanation = """
    Each PyTorch release supports a range of Python versions, and wheels exist only for those. Only
    CPython is supported. Use `--python` to select another interpreter.
    """

    def run(self, context: CheckContext) -> Outcome:
        facts = context.probe(interpreter)
        if facts is None:
            return self.skip("no Python was found")
        name_another = Fix("select another interpreter with --python", _other(context))
        if facts.error:
            # One cause, one failure: python.runs reports it, machine.platform a 32-bit Python.
            return self.skip(f"{facts.executable} is not a working Python: {facts.error}")
        if facts.implementation not in ("CPython", UNKNOWN):
            return self.found(f"{facts.executable} is {facts.implementation}, not CPython", name_another)
        wanted = context.recipe.recipe.needs.python if context.recipe else ""
        if fits(facts.version, wanted) == "no":
            detail = f"{facts.executable} is Python {facts.version}, the recipe needs {wanted}"
            return self.found(detail, name_another, found=facts.version, wanted=wanted)
        return self.ok(f"Python {facts.version} ({facts.executable})", version=facts.version)


def _other(context: CheckContext) -> tuple[str, ...]:
    wanted = context.recipe.recipe.needs.python if context.recipe else ""
    found = [item.executable for item in context.host.python.found if fits(item.version, wanted) == "yes"]
    named = recipe_options(context)
    return (f"xpubuild doctor{named} --python {found[0]}",) if found else ()


class PythonHeaders(Check):
    """Python.h of the interpreter is installed."""

    id = "python.headers"
    title = "Python.h is installed"
    families = ("M-python-build-tools", "N-run-time-jit-headers", "AH-missing-system-package")
    explanation = """
    Every extension is compiled with `Python.h`: those of PyTorch, and at run time the launchers that
    Triton compiles for `torch.compile`. Distributions package it separately (`python3-dev`,
    `python3-devel`). The check uses the include folder that the interpreter reports.
    """

    def run(self, context: CheckContext) -> Outcome:
        facts = context.probe(interpreter)
        if facts is None or facts.headers is None:
            return self.skip("no Python was found, or it could not be run")
        if facts.headers:
            return self.ok(f"{facts.include}/Python.h", include=facts.include)
        short = ".".join(facts.version.split(".")[:2])
        joined = short.replace(".", "")
        fix = Fix(
            f"install the headers of Python {short}",
            install_command(
                context,
                debian=[f"python{short}-dev"],
                rhel=[
                    "python3-devel"
                    if facts.executable.startswith("/usr/bin/python3")
                    else f"python{short}-devel"
                ],
                suse=[f"python{joined}-devel"],
            ),
        )
        return self.found(f"{facts.include}/Python.h does not exist", fix, include=facts.include)


class PythonSetuptools(Check):
    """The environment's setuptools can build the recipe's sources."""

    id = "python.setuptools"
    title = "The installed setuptools is compatible"
    severity = "warn"
    profiles = frozenset({"build"})
    families = ("M-python-build-tools",)
    explanation = """
    setuptools 80 turned `setup.py develop` into a wrapper of pip, and 82 removed `pkg_resources`:
    builds of older releases, and of many extensions, fail with them. `xpubuild install` installs the
    recipe's pinned setuptools into the workspace, so this only affects manual builds in the selected
    Python. With a recipe, the check uses its version range; without one, it reports a missing
    `pkg_resources` if a torch is installed.
    """

    def run(self, context: CheckContext) -> Outcome:
        python = context.probe(site)
        dist = python.get(_SETUPTOOLS) if python else None
        if python is None or dist is None:
            return self.skip("setuptools is not installed in the selected Python")
        wanted = _range(context)
        if wanted:
            if fits(dist.version, wanted) == "no":
                fix = Fix(
                    "xpubuild install is not affected; for a manual build, install a version in the"
                    " recipe's range",
                    (f"{python.executable} -m pip install 'setuptools{wanted}'",),
                )
                detail = f"setuptools {dist.version} is installed, the recipe needs {wanted}"
                return self.found(
                    f"{detail}; xpubuild installs its own", fix, version=dist.version, wanted=wanted
                )
        elif python.package("torch") is not None and fits(dist.version, ">=82") == "yes":
            fix = Fix(
                "install an older version to compile such extensions",
                (f"{python.executable} -m pip install 'setuptools<82'",),
            )
            return self.found(
                f"setuptools {dist.version} has no pkg_resources, which older extensions need", fix
            )
        return self.ok(f"setuptools {dist.version}", version=dist.version)


def _range(context: CheckContext) -> str:
    """Return the range that the recipe's requirement files are made from, else the major that they pin."""
    if context.recipe is None:
        return ""
    pinned = ""
    for name in context.recipe.recipe.toolchain.requirements:
        for folder in context.recipe.folders:
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


class PythonPipConstraints(Check):
    """No setting makes pip install other versions, into another place, or nothing."""

    id = "python.pip_constraints"
    title = "No setting changes what pip installs"
    profiles = frozenset({"build"})
    families = ("F-wrong-torch-or-triton-package", "M-python-build-tools")
    explanation = """
    Reads pip's configuration files (global, user, environment, `PIP_CONFIG_FILE`) and `PIP_` variables
    without running pip. `target`, `prefix`, `root`, `user`, `no-deps` and `dry-run` in a file affect
    every pip, including the one that xpubuild runs in the workspace: a failure. The same settings as
    variables are warnings, because xpubuild does not pass them on. Constraints are warnings, because
    they may be intended; a constraint on torch or triton decides which build a later `pip install` puts
    in place of the XPU build.
    """

    def run(self, context: CheckContext) -> Outcome:
        found = [item for item in context.probe(settings) if _meaning(item)]
        if not found:
            return self.ok("no setting changes what pip installs")
        told = "; ".join(f"{item.name} ({item.origin}) {_meaning(item)}" for item in found)
        hard = [item for item in found if item.from_file and item.name not in _LISTS]
        commands = tuple(dict.fromkeys(line for item in found for line in _take_out(context, item)))
        evidence = {"settings": [f"{item.name} ({item.origin})" for item in found]}
        fix = Fix("remove these settings while a workspace is built", commands)
        return self.found(told, fix, **evidence) if hard else self.warn(told, fix, **evidence)


def _take_out(context: CheckContext, item: Setting) -> tuple[str, ...]:
    """Return the command that removes a setting from its file or the environment."""
    if not item.from_file:
        return (f"unset {item.origin}",)
    if not item.level:
        # pip config would use another file and report that the key does not exist.
        line = f'"${{EDITOR:-vi}}" {shlex.quote(item.origin)}   # remove {item.name} from [{item.section}]'
        return as_root(context, line) if item.origin.startswith("/etc/") else (line,)
    pip = "pip"
    if item.level == "--site":
        python = context.probe(site)
        pip = f"{shlex.quote(str(python.executable))} -m pip" if python else pip
    line = f"{pip} config {item.level} unset {item.section}.{item.name}"
    return as_root(context, line) if item.level == "--global" else (line,)


def _meaning(item: Setting) -> str:
    if item.name in _ELSEWHERE and item.value.strip():
        return _ELSEWHERE[item.name]
    if item.name in _LISTS and item.value.strip():
        return _LISTS[item.name]
    return _SWITCHES[item.name] if item.name in _SWITCHES and item.on else ""

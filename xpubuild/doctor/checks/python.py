"""The Python that is built for or run with: version, headers, setuptools, and what pip is told."""

from __future__ import annotations

import re
import shlex

from xpubuild.doctor.context import Context
from xpubuild.doctor.fixes import as_root, install_command
from xpubuild.doctor.look.pip import Setting, settings
from xpubuild.doctor.look.sites import facts_of, site
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.host.pythons import PythonFacts, probe_python
from xpubuild.host.readers import UNKNOWN, read_text
from xpubuild.recipe.fits import fits, parse

_SETUPTOOLS = "setuptools"


def interpreter(context: Context) -> PythonFacts | None:
    """Return what is known of the interpreter; one that the report does not have is asked. For a probe."""
    known = facts_of(context)
    if known is None and context.live and context.python is not None:
        return probe_python(context.python)
    return known


class PythonRuns(Check):
    """The interpreter that was named, or is active, starts and answers."""

    id = "python.runs"
    title = "The Python that matters runs"
    families = ("M-python-build-tools",)
    live = True
    explanation = """\
Starts the interpreter that `--python` names, else that of the workspace, of `VIRTUAL_ENV` or of
`CONDA_PREFIX`, else `python3` on `PATH`, and asks what it is. A virtual environment whose base
installation was removed or upgraded, a shim of a version manager without a version, a program that is
no Python: nothing that is installed for such an interpreter can be imported, so it fails.
Where none was named or is active, a `python3` on `PATH` that does not run is a warning.
"""

    def run(self, context: Context) -> Outcome:
        facts = context.probe(interpreter)
        if facts is None:
            return self.skip("no Python was found")
        if not facts.error:
            return self.ok(f"{facts.executable} runs", executable=facts.executable)
        fix = Fix(
            "name an interpreter that runs with --python, or make the environment anew",
            (f"{shlex.quote(facts.executable)} -I -c 'import sys; print(sys.version)'", *_other(context)),
        )
        told = f"{facts.executable} is no working Python: {facts.error}"
        # The first python3 on PATH is a guess: nobody said that it is the one.
        return self.found(told, fix) if context.python is not None else self.warn(told, fix)


class PythonVersion(Check):
    """The interpreter is one that the recipe builds for."""

    id = "python.version"
    title = "The Python version fits"
    profiles = frozenset({"build"})
    recipe = True
    families = ("M-python-build-tools",)
    explanation = """\
Each PyTorch release builds for a range of Python versions, and wheels exist for it alone. Only CPython
will do. Another interpreter is named with `--python`.
"""

    def run(self, context: Context) -> Outcome:
        facts = context.probe(interpreter)
        if facts is None:
            return self.skip("no Python was found")
        name_another = Fix("name another interpreter with --python", _other(context))
        if facts.error:
            # One cause, one failure: python.runs tells it, machine.platform the one with 32 bits.
            return self.skip(f"{facts.executable} is no working Python: {facts.error}")
        if facts.implementation not in ("CPython", UNKNOWN):
            return self.found(f"{facts.executable} is {facts.implementation}, not CPython", name_another)
        wanted = context.recipe.recipe.needs.python if context.recipe else ""
        if fits(facts.version, wanted) == "no":
            detail = f"{facts.executable} is Python {facts.version}, the recipe needs {wanted}"
            return self.found(detail, name_another, found=facts.version, wanted=wanted)
        return self.ok(f"Python {facts.version} ({facts.executable})", version=facts.version)


def _other(context: Context) -> tuple[str, ...]:
    wanted = context.recipe.recipe.needs.python if context.recipe else ""
    found = [item.executable for item in context.host.python.found if fits(item.version, wanted) == "yes"]
    named = f" --recipe {context.recipe.recipe.name}" if context.recipe else ""
    return (f"xpubuild doctor{named} --python {found[0]}",) if found else ()


class PythonHeaders(Check):
    """Python.h of the interpreter is there."""

    id = "python.headers"
    title = "Python.h is there"
    families = ("M-python-build-tools", "N-run-time-jit-headers")
    explanation = """\
Every extension is compiled against `Python.h`: PyTorch's own, and at run time the launchers that Triton
compiles for `torch.compile`. Distributions ship it apart (`python3-dev`, `python3-devel`). The folder
that is looked at is the one that the interpreter itself names.
"""

    def run(self, context: Context) -> Outcome:
        facts = context.probe(interpreter)
        if facts is None or facts.headers is None:
            return self.skip("no Python was found, or it could not be asked")
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
        return self.found(f"{facts.include}/Python.h is not there", fix, include=facts.include)


class PythonSetuptools(Check):
    """setuptools of the environment is one that the recipe's trees build with."""

    id = "python.setuptools"
    title = "The installed setuptools fits"
    severity = "warn"
    profiles = frozenset({"build"})
    families = ("M-python-build-tools",)
    explanation = """\
setuptools 80 turned `setup.py develop` into a wrapper of pip, and 82 no longer has `pkg_resources`:
trees of older releases, and many extensions, stop there. `xpubuild install` installs the pinned
setuptools of the recipe into the workspace, so this is about builds by hand in the Python that was
looked at: with a recipe its range counts, without one the loss of `pkg_resources` is told where a torch
is installed.
"""

    def run(self, context: Context) -> Outcome:
        python = context.probe(site)
        dist = python.get(_SETUPTOOLS) if python else None
        if python is None or dist is None:
            return self.skip("no setuptools is installed in the Python that was looked at")
        wanted = _range(context)
        if wanted:
            if fits(dist.version, wanted) == "no":
                fix = Fix(
                    "nothing for xpubuild install; for a build by hand, install the range of the recipe",
                    (f"{python.executable} -m pip install 'setuptools{wanted}'",),
                )
                detail = f"setuptools {dist.version} is installed, the recipe's trees need {wanted}"
                return self.found(
                    f"{detail}; xpubuild brings its own", fix, version=dist.version, wanted=wanted
                )
        elif python.package("torch") is not None and fits(dist.version, ">=82") == "yes":
            fix = Fix(
                "install an older one to compile such extensions",
                (f"{python.executable} -m pip install 'setuptools<82'",),
            )
            return self.found(
                f"setuptools {dist.version} has no pkg_resources, which older extensions import", fix
            )
        return self.ok(f"setuptools {dist.version}", version=dist.version)


def _range(context: Context) -> str:
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


#: Settings that make pip install elsewhere, nothing, or less than was asked for.
_ELSEWHERE = {
    "target": "installs into another folder",
    "prefix": "installs below another prefix",
    "root": "installs below another root",
    "python": "installs for another interpreter",
}
_SWITCHES = {
    "user": "installs into the user's folder, which an environment does not see",
    "no-deps": "leaves out what a package requires",
    "dry-run": "installs nothing",
    "no-binary": "builds everything from source",
}
_LISTS = {"constraint": "limits versions", "requirement": "adds requirements", "no-binary": "forbids wheels"}


class PythonPipConstraints(Check):
    """Nothing makes pip install other versions, elsewhere, or nothing."""

    id = "python.pip_constraints"
    title = "Pip installs what it is asked for"
    profiles = frozenset({"build"})
    families = ("F-wrong-torch-or-triton-package", "M-python-build-tools")
    explanation = """\
Reads pip's configuration files (global, user, environment, `PIP_CONFIG_FILE`) and `PIP_` variables
without running pip. `target`, `prefix`, `root`, `user`, `no-deps` and `dry-run` in a file reach every
pip, also the one that fills the workspace: a failure. Constraints and the same settings as variables
are warnings: xpubuild does not hand those variables on, and constraints may well be meant. A constraint
on torch or triton decides which build a later `pip install` puts in the place of the XPU one.
"""

    def run(self, context: Context) -> Outcome:
        found = [item for item in context.probe(settings) if _meaning(item)]
        if not found:
            return self.ok("no setting changes what pip installs")
        told = "; ".join(f"{item.name} ({item.origin}) {_meaning(item)}" for item in found)
        hard = [item for item in found if item.from_file and item.name not in _LISTS]
        commands = tuple(dict.fromkeys(line for item in found for line in _take_out(context, item)))
        evidence = {"settings": [f"{item.name} ({item.origin})" for item in found]}
        fix = Fix("take them out while a workspace is built", commands)
        return self.found(told, fix, **evidence) if hard else self.warn(told, fix, **evidence)


def _take_out(context: Context, item: Setting) -> tuple[str, ...]:
    """Return the command that takes a setting out of where it is written."""
    if not item.from_file:
        return (f"unset {item.origin}",)
    if not item.level:
        # pip config would write to another file, and say that there is no such key.
        line = f'"${{EDITOR:-vi}}" {shlex.quote(item.origin)}   # take {item.name} out of [{item.section}]'
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

"""Puts a launcher in front of the compilers of a build, which starts them when their memory is free. Pure.

The launcher (``engine.admit``) is in the command of every compilation, also where nothing has to wait: ninja
compiles everything again when a command changes, and how much memory is free changes all the time. Where
nothing has to wait it is a shell that becomes the compiler.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from xpubuild.install.context import Context
from xpubuild.install.request import Admission, Choice
from xpubuild.install.tuning import VARIABLE, jobs_environment
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.switches import is_on
from xpubuild.workspace.layout import Layout

#: Launchers for each job.
LAUNCHERS = 3
_GIB = 1 << 30
_COMPILERS = tuple(f"CMAKE_{language}_COMPILER_LAUNCHER" for language in ("C", "CXX"))
# CMake 3.21 and later read these.
_LINKERS = tuple(f"CMAKE_{language}_LINKER_LAUNCHER" for language in ("C", "CXX"))
_LAUNCHER = """\
#!/bin/sh
# Starts a compiler: at once, or when the memory for it is free, where {variable} names a file that says how.
test -r "${{{variable}:-}}" || exec "$@"
exec {python} -IS -c '{program}' "${{0%/*}}" "$@"
"""
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import admit;"
    " sys.exit(admit.main(sys.argv[1:], dict(admit.os.environ)))"
)


def folder(layout: Layout) -> Path:
    """Return where the launcher is."""
    return layout.build / "launcher"


def launcher(layout: Layout) -> Path:
    """Return the launcher, as it is in the commands of a build."""
    return folder(layout) / "launch"


def program(python: str) -> str:
    """Return the text of the launcher; ``python`` runs ``admit.py`` beside it."""
    return _LAUNCHER.format(variable=VARIABLE, python=shlex.quote(python), program=_PROGRAM)


def has_launcher(recipe: Recipe, choice: Choice, name: str, layout: Layout) -> bool:
    """Return whether the compilers of a component get the launcher.

    CMake splits a launcher at semicolons, and ccache its prefix at spaces. With USE_CCACHE PyTorch makes
    ccache the launcher, if nothing else is.
    """
    component = recipe.components[name]
    plain = not any(character in str(layout.root) for character in " ;\t\n")
    taken = is_on(choice.switches.get(name, {}).get("USE_CCACHE", ""))
    return component.kind == "source" and choice.target in component.build.launcher and plain and not taken


def _launched(context: Context, name: str) -> bool:
    return has_launcher(context.recipe, context.choice, name, context.layout)


def tuning(context: Context, name: str, told: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that put the launcher in front of a component's compilers.

    ``told`` are the variables so far. A compile cache that is a launcher there stays in front: it calls the
    compiler only for what it does not have, and only that needs memory.
    """
    if not _launched(context, name):
        return {}
    own = str(launcher(context.layout))
    found = dict.fromkeys(_LINKERS, own)
    for variable in _COMPILERS:
        other = told.get(variable, "")
        if Path(other.split(";")[0]).name == "ccache":
            found["CCACHE_PREFIX"] = own
        else:
            found[variable] = f"{own};{other}" if other else own
    if context.facts.admission is not None:
        found[VARIABLE] = str(_settings(context, name))
    return found


def made(context: Context, name: str) -> tuple[str, ...]:
    """Return the folder of the launcher, in which Python keeps its compiled form, where it is used."""
    used = _launched(context, name)
    return (str(folder(context.layout)),) if used else ()


def jobs_of(context: Context, name: str) -> int:
    """Return the number of jobs that a component's build is told where it runs alone.

    Where compilers wait it is that of launchers: those that wait must not be missing among those that run.
    """
    facts = context.facts
    if facts.admission is None:
        return facts.jobs
    waits = _launched(context, name)
    return LAUNCHERS * facts.jobs if waits else facts.admission.other_jobs


def jobs_environment_of(context: Context, name: str) -> dict[str, str]:
    """Return what tells a component's build how many compilers to start.

    A jobserver is followed by a ninja that is told no number. PyTorch's build of SYCL takes MAX_JOBS as the
    number of device links too, so this is for those builds alone whose compilers have the launcher.
    """
    told = context.facts.makeflags
    if told and _launched(context, name):
        return {"MAKEFLAGS": told}
    return jobs_environment(jobs_of(context, name))


def memory_of(context: Context, name: str) -> int:
    """Return the bytes that a component's build may need at once where it runs alone."""
    most = int(context.component(name).build.memory_gib_per_job * _GIB * jobs_of(context, name))
    admission = context.facts.admission
    return most if admission is None else min(most, admission.budget_bytes)


def files(context: Context) -> dict[str, str]:
    """Return the launcher and what it reads (path -> text)."""
    layout = context.layout
    names = [name for name in context.choice.components if _launched(context, name)]
    if not names:
        return {}
    found = {str(launcher(layout)): program(context.facts.python)}
    admission = context.facts.admission
    if admission is not None:
        found[str(folder(layout) / "admit.py")] = admission.program
        found |= {str(_settings(context, name)): _text(context, admission, name) for name in names}
    return found


def _settings(context: Context, name: str) -> Path:
    return folder(context.layout) / f"{name}.txt"


def _text(context: Context, admission: Admission, name: str) -> str:
    build, cache = context.component(name).build, context.facts.cache
    lines = [
        f"budget {admission.budget_bytes}",
        f"jobs {context.facts.jobs}",
        f"ledger {cache / 'ledger'}",
        f"group {'yes' if admission.own_group else 'no'}",
        f"learned {cache / 'memory' / name}",
        f"root {context.layout.root}",
        f"default {int(build.memory_gib_per_job * _GIB)}",
        *(f"prior {int(unit.gib * _GIB)} {unit.match}" for unit in build.unit_memory),
    ]
    return "\n".join(lines) + "\n"

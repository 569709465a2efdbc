"""How fast a build may be: jobs by cores and memory, and compilers that wait for memory.

A launcher (``engine.admit``) is in the command of every compilation, SYCL's and links too, also where nothing
has to wait: ninja compiles everything again when a command changes, and how much memory is free changes all
the time. Where nothing has to wait it is a shell that becomes the compiler.

The number of jobs is chosen for one build: as many compilers as cores and memory allow. Builds whose
compilers wait have one budget and run side by side; the others run one after the other.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.specifiers import SpecifierSet

from xpubuild.engine import admit
from xpubuild.engine.model import Step
from xpubuild.install.build_compilers import sycl_cache
from xpubuild.install.target import Admission, Choice, Target
from xpubuild.machine.host_report import HostReport
from xpubuild.machine.jobs import JobPlan, LargeUnit, plan_jobs
from xpubuild.recipe.switches import is_on
from xpubuild.workspace.layout import Layout

#: How build tools get the number of jobs: setup.py and torch's extensions, and ``cmake --build``.
JOBS_VARIABLES = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
#: Names the file that the launcher reads; without it every compiler starts at once.
VARIABLE = "XPUBUILD_ADMIT"
#: Launchers for each job.
LAUNCHERS = 3
_GIB = 1 << 30
_GIB_PER_JOB = 2.0
_COMPILERS = tuple(f"CMAKE_{language}_COMPILER_LAUNCHER" for language in ("C", "CXX"))
#: Included at each project(): what torch-xpu-ops compiles and links device code with is a cache variable in
#: all releases (SYCL_EXECUTABLE, cmake/Modules/FindSYCL.cmake), and icx by that name is found on PATH.
#: CMAKE_SYCL_COMPILER_LAUNCHER, since 2.10, is in front of the device links alone.
_INCLUDED = "CMAKE_PROJECT_INCLUDE"
_SYCL_CMAKE = 'set(SYCL_EXECUTABLE "{icx}" CACHE FILEPATH "icx that waits for memory" FORCE)\n'
_SYCL_ICX = """\
#!/bin/sh
# icx behind the compile cache, which starts it by CCACHE_PREFIX, and behind the launcher.
case " $* " in *" -c "*) {cached} ;; esac
exec {launcher} icx "$@"
"""
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


# --- the launcher ----------------------------------------------------------------------------------------


def launcher(layout: Layout) -> Path:
    """Return the launcher, as it is in the commands of a build; what it reads is beside it."""
    return layout.build / "launcher" / "launch"


def has_launcher(choice: Choice, name: str) -> bool:
    """Return whether the compilers of a component get the launcher.

    CMake splits a launcher at semicolons, and ccache its prefix at spaces. With USE_CCACHE PyTorch makes
    ccache the launcher, if nothing else is. What is put in the place of the SYCL compiler is for icx alone.
    """
    component = choice.component(name)
    plain = not any(character in str(choice.layout.root) for character in " ;\t\n")
    switches = choice.switches.get(name, {})
    taken = is_on(switches.get("USE_CCACHE", "")) or _INCLUDED in switches
    taken = taken or switches.get("XPU_SYCL_COMPILER") == "dpclang"
    return component.kind == "source" and choice.device in component.build.launcher and plain and not taken


def launcher_tuning(target: Target, name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that put the launcher in front of a component's compilers.

    ``given`` are the variables so far. A compile cache that is a launcher there stays in front: it calls the
    compiler only for what it does not have, and only that needs memory.
    """
    if not has_launcher(target, name):
        return {}
    own = str(launcher(target.layout))
    found = dict.fromkeys(_LINKERS, own)
    if target.device == "xpu":
        found[_INCLUDED] = str(launcher(target.layout).with_name(f"{name}.cmake"))
    for variable in _COMPILERS:
        other = given.get(variable, "")
        if Path(other.split(";")[-1]).name == "ccache":
            found["CCACHE_PREFIX"] = own
        else:
            found[variable] = f"{own};{other}" if other else own
    if target.admission is not None:
        found[VARIABLE] = str(_settings(target, name))
    return found


def launcher_folder(target: Target, name: str) -> tuple[str, ...]:
    """Return the folder of the launcher, in which Python keeps its compiled form, where it is used."""
    return (str(launcher(target.layout).parent),) if has_launcher(target, name) else ()


def launcher_files(target: Target) -> dict[str, str]:
    """Return the launcher and what it reads (path -> text)."""
    names = [name for name in target.components if has_launcher(target, name)]
    if not names:
        return {}
    place, admission = launcher(target.layout), target.admission
    python = shlex.quote(target.python)
    found = {str(place): _LAUNCHER.format(variable=VARIABLE, python=python, program=_PROGRAM)}
    if admission is not None:
        found[str(place.with_name("admit.py"))] = admission.program
        found |= {str(_settings(target, name)): _text(target, admission, name) for name in names}
    for name in names if target.device == "xpu" else ():
        icx, words = place.with_name(f"{name}.icx"), sycl_cache(target, name)
        cached = f'exec {shlex.join((*words, "icx"))} "$@"' if words else ""
        found[str(icx)] = _SYCL_ICX.format(cached=cached, launcher=shlex.quote(str(place)))
        found[str(place.with_name(f"{name}.cmake"))] = _SYCL_CMAKE.format(icx=icx)
    return found


def _settings(target: Target, name: str) -> Path:
    return launcher(target.layout).with_name(f"{name}.txt")


def _text(target: Target, admission: Admission, name: str) -> str:
    build, cache = target.component(name).build, target.cache
    lines = [
        f"budget {admission.budget_bytes}",
        f"jobs {target.jobs}",
        f"ledger {cache / 'ledger'}",
        f"group {'yes' if admission.own_group else 'no'}",
        f"learned {cache / 'memory' / name}",
        f"root {target.layout.root}",
        f"default {int(build.memory_gib_per_job * _GIB)}",
        *(f"prior {int(unit.gib * _GIB)} {unit.match}" for unit in build.unit_memory),
    ]
    return "\n".join(lines) + "\n"


# --- how many jobs ---------------------------------------------------------------------------------------


def jobs_alone(target: Target, name: str) -> int:
    """Return the number of jobs of a component's build where it runs alone.

    Where compilers wait it is that of launchers: those that wait must not be missing among those that run.
    """
    if target.admission is None:
        return target.jobs
    return LAUNCHERS * target.jobs if has_launcher(target, name) else target.admission.other_jobs


def memory_of(target: Target, name: str) -> int:
    """Return the bytes that a component's build may need at once where it runs alone."""
    most = int(target.component(name).build.memory_gib_per_job * _GIB * jobs_alone(target, name))
    return most if target.admission is None else min(most, target.admission.budget_bytes)


def capacity(choice: Choice, host: HostReport, gcc: str) -> tuple[JobPlan, Admission | None]:
    """Return the number of jobs, and what compilers are admitted by.

    Raises:
        UsageError: --jobs is no number.
    """
    memory = host.memory
    per_job = [choice.component(name).build.memory_gib_per_job for name in choice.components]
    # The most demanding units that a build compiles for this device, with this compiler.
    large = [
        LargeUnit(unit.what, int(unit.gib_each * _GIB), int(unit.gib_largest * _GIB))
        for name in choice.components
        for unit in choice.component(name).build.large_units
        if choice.device in unit.targets and (unit.gcc is None or gcc in SpecifierSet(unit.gcc))
    ]
    largest = max(large, key=lambda unit: unit.largest_bytes, default=None)
    each, asked = int(max(per_job, default=_GIB_PER_JOB) * _GIB), choice.options.job_count
    waits = _can_wait(choice)
    plan = plan_jobs(host.cpu.usable, memory.usable_bytes, asked, each, largest, can_wait=waits)
    if plan.budget_bytes is None:
        return plan, None
    limit = memory.cgroup_limit_bytes
    own_group = limit is not None and limit < (memory.total_bytes or 0)
    program = Path(admit.__file__).read_text("utf-8")
    return plan, Admission(plan.budget_bytes, own_group, plan.other_jobs, program)


def _can_wait(choice: Choice) -> bool:
    """Return whether builds of this plan have the launcher in front of their compilers.

    A tree that was configured otherwise has not: upstream does not configure it again.
    """
    launched = [name for name in choice.components if has_launcher(choice, name)]
    for name in launched:
        cache = choice.tree(name) / "build" / "CMakeCache.txt"
        with contextlib.suppress(OSError):
            if str(launcher(choice.layout)) not in cache.read_text("utf-8", "replace"):
                return False
    return bool(launched)


def jobs_of(step: Step) -> int | None:
    """Return the number of jobs of a step; None if it compiles nothing."""
    found = (command.tuning.get(JOBS_VARIABLES[0]) for command in step.commands)
    return next((int(jobs) for jobs in found if jobs is not None), None)


def one_by_one(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps with builds one after the other, but for those whose compilers wait for memory.

    A build is a step with a command that gets a number of jobs, all of which it may use.
    """
    found, before = list[Step](), list[tuple[str, bool]]()
    for step in steps:
        tuned = {name for command in step.commands for name in command.tuning}
        if tuned.isdisjoint(JOBS_VARIABLES):
            found.append(step)
            continue
        waits, known = VARIABLE in tuned, {*step.needs, *step.after}
        alone = [name for name, other in before if not (waits and other) and name not in known]
        found.append(replace(step, after=(*step.after, *alone)))
        before.append((step.id, waits))
    return tuple(found)

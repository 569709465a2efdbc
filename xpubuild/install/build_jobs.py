"""How fast a build may be: jobs by cores and memory, a jobserver, and compilers that wait for memory.

A launcher (``engine.admit``) is in the command of every compilation, SYCL's and links too, also where nothing
has to wait: ninja compiles everything again when a command changes, and how much memory is free changes all
the time. Where nothing has to wait it is a shell that becomes the compiler.

The number of jobs is chosen for one build: as many compilers as cores and memory allow. Builds of the same
rank (the same number of builds must come before them) are put into lanes. Lanes run in parallel, each with
its share of the jobs; the builds of a lane run one after the other. So there are never more compilers running
than planned.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.specifiers import SpecifierSet

from xpubuild.engine import admit
from xpubuild.engine.model import Command, Step
from xpubuild.frozen import frozen
from xpubuild.install.build_compilers import sycl_cache
from xpubuild.install.target import Admission, Choice, Target
from xpubuild.machine.host_report import HostReport
from xpubuild.machine.jobs import JobPlan, LargeUnit, plan_jobs
from xpubuild.recipe.model import LargeUnits
from xpubuild.recipe.switches import is_on
from xpubuild.workspace.layout import Layout

#: How build tools are told the number of jobs: setup.py and torch's extensions, and ``cmake --build``.
JOBS_VARIABLES = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
#: Tells of a jobserver instead.
JOBSERVER_VARIABLE = "MAKEFLAGS"
#: Names the file that the launcher reads; without it every compiler starts at once.
VARIABLE = "XPUBUILD_ADMIT"
#: Launchers for each job.
LAUNCHERS = 3
_GIB = 1 << 30
_GIB_PER_JOB = 2.0
_AUTH = re.compile(r"--jobserver-auth=fifo:(\S+)")
_JOBS = re.compile(r"(?:^|\s)-j(\d+)\b")
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


@frozen
class Jobserver:
    """``makeflags`` is what tells make 4.4 and ninja 1.13 of it, ``jobs`` how many slots it has."""

    makeflags: str
    jobs: int


def inherited_jobserver(environ: Mapping[str, str]) -> Jobserver | None:
    """Return the jobserver of the caller; None without one, and for one of pipes.

    The descriptors of a pipe do not reach builds, as no others of the caller do; ``make
    --jobserver-style=fifo`` has one with a name, since 4.4 by default.
    """
    flags = environ.get("MAKEFLAGS", "")
    # The last one counts, as for make and ninja.
    names, jobs = _AUTH.findall(flags), _JOBS.findall(flags)
    if not names or not jobs or int(jobs[-1]) < 1:
        return None
    try:
        usable = Path(names[-1]).is_fifo() and os.access(names[-1], os.R_OK | os.W_OK)
    except OSError:
        return None
    return Jobserver(f" -j{jobs[-1]} --jobserver-auth=fifo:{names[-1]}", int(jobs[-1])) if usable else None


# --- the launcher ----------------------------------------------------------------------------------------


def launcher(layout: Layout) -> Path:
    """Return the launcher, as it is in the commands of a build; what it reads is beside it."""
    return layout.build / "launcher" / "launch"


def program(python: str) -> str:
    """Return the text of the launcher; ``python`` runs ``admit.py`` beside it."""
    return _LAUNCHER.format(variable=VARIABLE, python=shlex.quote(python), program=_PROGRAM)


def has_launcher(choice: Choice, name: str) -> bool:
    """Return whether the compilers of a component get the launcher.

    CMake splits a launcher at semicolons, and ccache its prefix at spaces. With USE_CCACHE PyTorch makes
    ccache the launcher, if nothing else is.
    """
    component = choice.component(name)
    plain = not any(character in str(choice.layout.root) for character in " ;\t\n")
    taken = is_on(choice.switches.get(name, {}).get("USE_CCACHE", "")) or _INCLUDED in component.build.env
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
    found = {str(place): program(target.python)}
    if admission is not None:
        found[str(place.with_name("admit.py"))] = admission.program
        found |= {str(_settings(target, name)): _text(target, admission, name) for name in names}
    for name in names if target.device == "xpu" else ():
        icx, words = place.with_name(f"{name}.icx"), sycl_cache(target, name)
        cached = f'exec {shlex.join((*words, "icx"))} "$@"' if words else ""
        found[str(icx)] = _SYCL_ICX.format(cached=cached, launcher=place)
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
    """Return the number of jobs that a component's build is told where it runs alone.

    Where compilers wait it is that of launchers: those that wait must not be missing among those that run.
    """
    if target.admission is None:
        return target.jobs
    return LAUNCHERS * target.jobs if has_launcher(target, name) else target.admission.other_jobs


def jobs_environment_of(target: Target, name: str) -> dict[str, str]:
    """Return what tells a component's build how many compilers to start.

    A jobserver is followed by a ninja that is told no number. PyTorch's build of SYCL takes MAX_JOBS as the
    number of device links too, so this is for those builds alone whose compilers have the launcher.
    """
    if target.makeflags and has_launcher(target, name):
        return {JOBSERVER_VARIABLE: target.makeflags}
    return dict.fromkeys(JOBS_VARIABLES, str(jobs_alone(target, name)))


def memory_of(target: Target, name: str) -> int:
    """Return the bytes that a component's build may need at once where it runs alone."""
    most = int(target.component(name).build.memory_gib_per_job * _GIB * jobs_alone(target, name))
    return most if target.admission is None else min(most, target.admission.budget_bytes)


def capacity(choice: Choice, host: HostReport, gcc: str) -> tuple[JobPlan, Admission | None, str]:
    """Return the number of jobs, what compilers are admitted by, and MAKEFLAGS of a jobserver above.

    Raises:
        UsageError: --jobs is no number.
    """
    waits, asked, memory = _can_wait(choice), choice.options.job_count, host.memory
    # A number that was asked for goes before a jobserver, as for make and ninja.
    server = inherited_jobserver(os.environ) if waits and asked == "auto" else None
    per_job = [choice.component(name).build.memory_gib_per_job for name in choice.components]
    units = [unit for name in choice.components for unit in large_units(choice, name, gcc)]
    large = [LargeUnit(u.what, int(u.gib_each * _GIB), int(u.gib_largest * _GIB)) for u in units]
    plan = plan_jobs(
        server.jobs if server else host.cpu.usable,
        memory.usable_bytes,
        asked,
        int(max(per_job, default=_GIB_PER_JOB) * _GIB),
        max(large, key=lambda unit: unit.largest_bytes, default=None),
        can_wait=waits,
    )
    if server:
        plan = replace(plan, reason=f"slots of the jobserver; {plan.reason}")
    limit, admission = memory.cgroup_limit_bytes, None
    if plan.budget_bytes is not None:
        admission = Admission(
            budget_bytes=plan.budget_bytes,
            own_group=limit is not None and limit < (memory.total_bytes or 0),
            other_jobs=plan.other_jobs,
            program=Path(admit.__file__).read_text("utf-8"),
        )
    return plan, admission, server.makeflags if server else ""


def large_units(choice: Choice, name: str, gcc: str) -> list[LargeUnits]:
    """Return the most demanding units that a build compiles for this device, with this compiler."""
    return [
        unit
        for unit in choice.component(name).build.large_units
        if choice.device in unit.targets and (unit.gcc is None or gcc in SpecifierSet(unit.gcc))
    ]


def _can_wait(choice: Choice) -> bool:
    """Return whether builds of this plan have the launcher in front of their compilers.

    A build of an earlier xpubuild that is continued has not: upstream does not configure it again.
    """
    launched = [name for name in choice.components if has_launcher(choice, name)]
    for name in launched:
        cache = choice.layout.src / name / "build" / "CMakeCache.txt"
        with contextlib.suppress(OSError):
            if str(launcher(choice.layout)) not in cache.read_text("utf-8", "replace"):
                return False
    return bool(launched)


def jobs_of(step: Step) -> int | None:
    """Return the number of jobs that a step is told; None where it compiles nothing."""
    given = {name: value for command in step.commands for name, value in command.tuning.items()}
    found = next((given[name] for name in JOBS_VARIABLES if name in given), None)
    return None if found is None else int(found)


def share_jobs(steps: Sequence[Step], jobs: int) -> tuple[Step, ...]:
    """Return the steps with ``jobs`` divided among the builds that run in parallel.

    A build is a step with a command that is told a number of jobs, which it never gets more of; its
    ``memory_bytes`` is for ``jobs``. Those whose compilers wait have one budget and keep their number, as do
    those that follow a jobserver.
    """
    ranks = _ranks(steps)
    shared: dict[str, Step] = {}
    for rank in sorted(set(ranks.values())):
        group = [step for step in steps if ranks.get(step.id) == rank]
        earlier = tuple(name for name, other in ranks.items() if other == rank - 1)
        # Compilers that wait for memory do not know of those beside them that cannot.
        lanes = 1 if len({_has(step, VARIABLE) for step in group}) > 1 else min(len(group), jobs)
        for index, step in enumerate(group):
            before = (*earlier, *((group[index - lanes].id,) if index >= lanes else ()))
            # What does not divide evenly goes to the first lanes.
            part = jobs // lanes + (index % lanes < jobs % lanes)
            shared[step.id] = replace(
                step,
                commands=tuple(_with_jobs(command, part) for command in step.commands),
                memory_bytes=step.memory_bytes * part // jobs,
                after=tuple(dict.fromkeys((*step.after, *(one for one in before if one not in step.needs)))),
            )
    return tuple(shared.get(step.id, step) for step in steps)


def _has(step: Step, *names: str) -> bool:
    return any(name in command.tuning for command in step.commands for name in names)


def _ranks(steps: Sequence[Step]) -> Mapping[str, int]:
    """Return for each build how many builds must come before it, in the longest chain of them."""
    by_id = {step.id: step for step in steps}
    builds = {step.id for step in steps if _has(step, *JOBS_VARIABLES, JOBSERVER_VARIABLE)}
    below: dict[str, int] = {}

    def depth(name: str) -> int:
        """Count the builds up to and with this step."""
        if name not in below:
            before = [depth(other) for other in (*by_id[name].needs, *by_id[name].after) if other in by_id]
            below[name] = max(before, default=0) + (name in builds)
        return below[name]

    return {step.id: depth(step.id) for step in steps if step.id in builds}


def _with_jobs(command: Command, part: int) -> Command:
    given = {name: command.tuning[name] for name in JOBS_VARIABLES if name in command.tuning}
    if VARIABLE in command.tuning or not given:
        return command
    most = str(min(part, *map(int, given.values())))
    return replace(command, tuning={**command.tuning, **dict.fromkeys(JOBS_VARIABLES, most)})

"""The facts of a plan: interpreter, compilers, jobs, requirement files, oneAPI, conda packages."""

from __future__ import annotations

import os
from dataclasses import replace

import platformdirs
from packaging.specifiers import SpecifierSet

from xpubuild.engine.environment import base_environment
from xpubuild.errors import UnsatisfiableError, UsageError
from xpubuild.install.admission_facts import admission_of, can_wait
from xpubuild.install.build_compilers import build_compilers
from xpubuild.install.compile_cache_facts import compile_cache
from xpubuild.install.downloads import downloads_from
from xpubuild.install.ignored_env import ignored_variables
from xpubuild.install.installer import installer_for
from xpubuild.install.jobserver import inherited_jobserver
from xpubuild.install.oneapi_facts import ocloc_lacks, oneapi_facts
from xpubuild.install.options import PlanOptions
from xpubuild.install.planner import requirement_names
from xpubuild.install.request import Choice, Facts, Request
from xpubuild.machine.compilers import choose_compilers
from xpubuild.machine.host_report import HostReport
from xpubuild.machine.jobs import LargeUnit, plan_jobs
from xpubuild.machine.python_choice import require_python, resolve_python
from xpubuild.recipe.compatible_host import of_host
from xpubuild.recipe.load import requirement_file
from xpubuild.recipe.model import Recipe
from xpubuild.supply.git.integrity import dirty_digest
from xpubuild.workspace.layout import Layout

_GIB = 1 << 30
_GIB_PER_JOB = 2.0


def facts_of(options: PlanOptions, request: Request, choice: Choice, host: HostReport) -> Facts:
    """Return what the planner may know of this host.

    Raises:
        XpuBuildError: an interpreter, compiler, oneAPI or conda package that is needed is not there.
    """
    recipe = request.loaded.recipe
    conda = conda_lock_of(options, request)
    python, version = _python(options, request, host, conda)
    compilers = choose_compilers(recipe.needs.gcc, caller=os.environ, system=host.os, known=host.compilers)
    waits = can_wait(request, choice)
    # A number that was asked for goes before a jobserver, as for make and ninja.
    server = inherited_jobserver(os.environ) if waits and options.job_count == "auto" else None
    jobs = plan_jobs(
        server.jobs if server else host.cpu.usable,
        host.memory.usable_bytes,
        options.job_count,
        _bytes_per_job(recipe, choice),
        _largest_units(recipe, choice, compilers.cxx.version),
        can_wait=waits,
    )
    oneapi = oneapi_facts(options, recipe, choice)
    chosen = build_compilers(compilers, oneapi)
    builds = any(recipe.components[name].kind == "source" for name in choice.components)
    asked = options.compile_cache, options.compile_cache_remote
    cache = compile_cache(*asked, chosen, oneapi) if builds else ""
    downloads = downloads_from(options.mirror_folder, offline=options.offline)
    return Facts(
        python=python,
        python_version=version,
        compilers=chosen,
        jobs=jobs.jobs,
        jobs_reason=f"slots of the jobserver; {jobs.reason}" if server else jobs.reason,
        cache=platformdirs.user_cache_path("xpubuild"),
        requirements={
            name: requirement_file(request.loaded, name).read_text("utf-8")
            for name in requirement_names(request, choice)
        },
        oneapi=oneapi,
        dirty=_dirty(request, choice),
        warnings=ignored_variables(recipe, choice, os.environ),
        situation=replace(
            of_host(host, choice.target),
            ocloc_lacks=ocloc_lacks(recipe, choice, compilers.cxx.version, oneapi, host.os),
        ),
        downloads=downloads,
        installer=installer_for(options, request.workspace, downloads),
        conda_lock=conda,
        compile_cache=None if isinstance(cache, str) else cache,
        compile_cache_off=options.compile_cache == "none",
        compile_cache_why=cache if isinstance(cache, str) else "",
        admission=admission_of(jobs, host.memory),
        makeflags=server.makeflags if server else "",
        cores=host.cpu.usable,
    )


def conda_lock_of(options: PlanOptions, request: Request) -> str | None:
    """Return the text of the conda-lock.yml for ``--env conda``; None for a virtual environment.

    Raises:
        UnsatisfiableError, RecipeError, FetchError, ToolchainError: see ``conda_gather.conda_lock``.
    """
    if options.env != "conda":
        if options.conda_lock is not None:
            raise UsageError("--conda-lock needs --env conda", fix="add --env conda, or omit --conda-lock")
        return None
    from xpubuild.install.conda_packages import CondaRequest, conda_lock  # noqa: PLC0415 - for few

    return conda_lock(
        CondaRequest(
            recipe=request.loaded.recipe,
            layout=Layout(request.workspace),
            cache=platformdirs.user_cache_path("xpubuild") / "conda",
            python=options.python,
            channels=options.conda_channel,
            lock=options.conda_lock,
            update=options.update,
            offline=options.offline,
            mirror=options.mirror_folder,
        ),
        options.report,
    )


def _python(options: PlanOptions, request: Request, host: HostReport, conda: str | None) -> tuple[str, str]:
    """Return the interpreter and its version: of this machine, or the one that conda will install."""
    needs = request.loaded.recipe.needs.python
    if conda is None:
        executable = resolve_python(options.python, base_environment())
        found = require_python(executable, needs, system=host.os, known=host.python.selected)
        return found.executable, found.version
    from xpubuild.install.conda_packages import python_of  # noqa: PLC0415 - for few

    version = python_of(conda)
    if version not in SpecifierSet(needs):
        raise UnsatisfiableError(
            f"the conda lock has Python {version}, recipe '{request.loaded.recipe.name}' needs {needs}",
            fix="use another version with --python, such as --python 3.12, or another --conda-lock",
            evidence={"found": version, "needs": needs},
        )
    return str(Layout(request.workspace).python), version


def _bytes_per_job(recipe: Recipe, choice: Choice) -> int:
    sizes = [recipe.components[name].build.memory_gib_per_job for name in choice.components]
    return int(max(sizes, default=_GIB_PER_JOB) * _GIB)


def _largest_units(recipe: Recipe, choice: Choice, gcc: str) -> LargeUnit | None:
    """Return the most demanding units that this build compiles: for this target, with this compiler."""
    found = [
        LargeUnit(unit.what, int(unit.gib_each * _GIB), int(unit.gib_largest * _GIB))
        for name in choice.components
        for unit in recipe.components[name].build.large_units
        if choice.target in unit.targets and (unit.gcc is None or gcc in SpecifierSet(unit.gcc))
    ]
    return max(found, key=lambda unit: unit.largest_bytes, default=None)


def _dirty(request: Request, choice: Choice) -> dict[str, str]:
    if not request.allow_dirty:
        return {}
    layout = Layout(request.workspace)
    found = {}
    for name in choice.components:
        checkout = layout.src / name
        source = request.loaded.recipe.components[name].source
        skip = source.skip_submodules if source is not None else ()
        edits = dirty_digest(checkout, skip=skip) if (checkout / ".git").exists() else None
        if edits is not None:
            found[name] = edits
    return found

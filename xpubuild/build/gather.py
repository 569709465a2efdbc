"""Everything the planner may know, gathered: the only part of planning that looks at the machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import platformdirs
import yaml
from packaging.specifiers import SpecifierSet

from xpubuild.build.choose import check_host, choose
from xpubuild.build.conda_gather import CondaRequest, conda_lock
from xpubuild.build.context import Context
from xpubuild.build.moved import place_of
from xpubuild.build.newest import built_in, choose_release, entered, situation_for
from xpubuild.build.planner import make_context, make_plan, requirement_names
from xpubuild.build.refusal import with_alternatives
from xpubuild.build.request import Choice, Compilers, EnvKind, Facts, Layout, OneapiFacts, Request, Resolved
from xpubuild.build.resolve import resolve
from xpubuild.build.situation import of_host
from xpubuild.build.supply import Telling, local_mirror, supply_from
from xpubuild.build.unheard import unheard_variables
from xpubuild.conda.install import python_version
from xpubuild.conda.lockfile import read_lock
from xpubuild.engine.environment import base_environment
from xpubuild.engine.events import NullSink
from xpubuild.engine.model import Plan
from xpubuild.engine.process import Cancel
from xpubuild.errors import UnsatisfiableError, UsageError
from xpubuild.host.jobs import LargeUnit, plan_jobs
from xpubuild.host.report import HostReport, host_report
from xpubuild.lock.make import conda_part
from xpubuild.lock.model import Conda
from xpubuild.mirror.remote.location import Location
from xpubuild.oneapi.envdiff import apply
from xpubuild.oneapi.environment import OneapiNeeds, oneapi_environment
from xpubuild.oneapi.selection import Mode
from xpubuild.recipe.load import load, requirement_file
from xpubuild.recipe.model import LoadedRecipe, Recipe, Target
from xpubuild.recipe.releases import is_release, releases
from xpubuild.source.git import Git
from xpubuild.source.integrity import dirty_digest
from xpubuild.source.mirror import MirrorStore
from xpubuild.toolchain.compilers import choose_compilers
from xpubuild.toolchain.pythons import require_python, resolve_python

_GIB = 1 << 30
_GIB_PER_JOB = 2.0


@dataclass(frozen=True)
class PlanOptions:
    """The build options as the command line gives them."""

    recipe: str | None
    workspace: Path | None = None
    with_: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    cxx11_abi: str | None = None
    target: Target | None = None
    variant: str | None = None
    arch: tuple[str, ...] = ()
    python: str | None = None
    jobs: str = "auto"
    oneapi_root: Path | None = None
    oneapi_mode: Mode = "components"
    editable: bool = False
    allow_dirty: bool = False
    update: bool = False
    mirror: Path | Location | None = None
    offline: bool = False
    env: EnvKind = "venv"
    conda_lock: Path | None = None
    conda_channel: tuple[str, ...] = ()
    report: Callable[[str], None] = lambda _: None
    telling: Telling = NullSink
    resolved: Mapping[str, Resolved] | None = None


@dataclass(frozen=True)
class Prepared:
    """A plan with the facts it was made from."""

    plan: Plan
    context: Context
    host: Mapping[str, Any]
    disk_gib: float

    @property
    def conda(self) -> Conda | None:
        """The conda packages of the environment, as a lock has them."""
        text = self.context.facts.conda_lock
        return None if text is None else conda_part(yaml.safe_load(text))

    @property
    def facts(self) -> Facts:
        """What is known of the host."""
        return self.context.facts


def default_workspace(recipe: str) -> Path:
    """Return ``$XDG_DATA_HOME/xpubuild/<recipe>``."""
    return platformdirs.user_data_path("xpubuild") / recipe


def request_of(options: PlanOptions, loaded: LoadedRecipe) -> Request:
    """Return what is asked for, in the planner's terms."""
    return Request(
        loaded=loaded,
        workspace=place_of(options.workspace or default_workspace(loaded.recipe.name)),
        with_=options.with_,
        without=options.without,
        cxx11_abi=None if options.cxx11_abi is None else int(options.cxx11_abi),
        target=options.target,
        variant=options.variant,
        arch=options.arch,
        editable=options.editable,
        allow_dirty=options.allow_dirty,
    )


def prepare(options: PlanOptions, *, cancel: Cancel | None = None) -> Prepared:
    """Look at recipe and host and return the plan.

    Raises:
        XpuBuildError: one of RecipeError, UsageError, UnsatisfiableError, ToolchainError, FetchError; nothing
            was made.
    """
    _jobs(options.jobs)  # a slip of the pen is told before a host is looked at
    options, why = _named(options)
    loaded = load(options.recipe or "")
    recipe = loaded.recipe
    request = request_of(options, loaded)
    try:
        # Refusals that need no look at the machine come first: they are certain and cost nothing.
        choice = choose(request)
        # From here on a mirror is a folder, wherever it is served.
        mirror = local_mirror(options.mirror, recipe.name, telling=options.telling, cancel=cancel)
        options = replace(options, mirror=mirror)
        host = host_report(workspace=request.workspace, oneapi_root=options.oneapi_root)
        facts = replace(_facts(options, request, choice, host), chosen=why)
        # Upstream is asked last: for what this host cannot build no commit is needed.
        check_host(request, choice, facts)
        layout = Layout(request.workspace)
        found = options.resolved
        if found is None:
            store = git_store(facts, cancel=cancel)
            found = resolve(recipe, choice.components, layout, store=store, update=options.update)
        facts = replace(facts, resolved=found)
        plan = make_plan(request, facts)
    except UnsatisfiableError as error:
        raise _with_alternatives(error, options, request) from error
    context = make_context(request, facts)
    return Prepared(plan=plan, context=context, host=host.to_json(), disk_gib=recipe.needs.disk_gib)


def git_store(facts: Facts, *, cancel: Cancel | None = None) -> MirrorStore:
    """Return the user's git mirrors, filled from where the facts say.

    Raises:
        ToolchainError: git is missing or too old.
    """
    supply = facts.supply
    stocks = (supply.mirror,) if supply.mirror is not None else ()
    return MirrorStore(
        facts.cache, Git.open(), offline=supply.offline, stocks=stocks, cancel=cancel or Cancel()
    )


def _named(options: PlanOptions) -> tuple[PlanOptions, str]:
    """Return the options with a recipe, and why that one: the workspace's own, else the newest."""
    if options.recipe is not None:
        return options, ""
    chosen = entered() if options.workspace is None else built_in(options.workspace)
    if chosen is None:
        host = host_report(oneapi_root=options.oneapi_root)
        situation = situation_for(host, options.target or "xpu", options.python)
        if options.cxx11_abi is not None:
            situation = replace(situation, cxx11_abi=int(options.cxx11_abi))
        chosen = choose_release(releases(), host, options.target, situation, options.with_)
    return (
        replace(
            options,
            recipe=chosen.recipe,
            target=options.target or chosen.target,
            workspace=options.workspace or chosen.workspace,
        ),
        chosen.why,
    )


def _with_alternatives(
    error: UnsatisfiableError, options: PlanOptions, request: Request
) -> UnsatisfiableError:
    """Return the error with the releases that would work here, where a constraint is what was broken."""
    recipe = request.loaded.recipe
    if not is_release(recipe):
        return error
    target = request.target or recipe.target
    host = host_report(oneapi_root=options.oneapi_root)
    found = situation_for(host, target, options.python)
    situation = replace(
        found,
        # That none is installed is an error of its own; here it would hide what else fits.
        oneapi=found.oneapi or None,
        cxx11_abi=request.cxx11_abi,
        arch=request.arch or None,
    )
    return with_alternatives(error, recipe, situation, releases())


def _facts(options: PlanOptions, request: Request, choice: Choice, host: HostReport) -> Facts:
    recipe = request.loaded.recipe
    conda = conda_lock_of(options, request)
    python, version = _python(options, request, host, conda)
    compilers = choose_compilers(recipe.needs.gcc, caller=os.environ, system=host.os)
    jobs = plan_jobs(
        host.cpu.usable,
        host.memory.usable_bytes,
        _jobs(options.jobs),
        _bytes_per_job(recipe, choice),
        _largest_units(recipe, choice, compilers.cxx.version),
    )
    return Facts(
        python=python,
        python_version=version,
        compilers=Compilers(
            cc=compilers.cc.path,
            cxx=compilers.cxx.path,
            version=compilers.cxx.version,
            key=compilers.relevant(),
            kind=compilers.cxx.kind,
        ),
        jobs=jobs.jobs,
        jobs_reason=jobs.reason,
        cache=platformdirs.user_cache_path("xpubuild"),
        requirements={
            name: requirement_file(request.loaded, name).read_text("utf-8")
            for name in requirement_names(request, choice)
        },
        oneapi=_oneapi(options, request, choice),
        dirty=_dirty(request, choice),
        warnings=unheard_variables(recipe, choice, os.environ),
        situation=of_host(host, choice.target),
        supply=supply_from(_folder(options), offline=options.offline),
        conda_lock=conda,
    )


def conda_lock_of(options: PlanOptions, request: Request) -> str | None:
    """Return the text of the conda-lock.yml for ``--env conda``; None for a virtual environment.

    Raises:
        UnsatisfiableError, RecipeError, FetchError, ToolchainError: see ``conda_gather.conda_lock``.
    """
    if options.env != "conda":
        if options.conda_lock is not None:
            raise UsageError("--conda-lock is for --env conda", fix="add --env conda, or leave it away")
        return None
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
            mirror=_folder(options),
        ),
        options.report,
    )


def _folder(options: PlanOptions) -> Path | None:
    """Return the folder of the mirror; ``prepare`` has put it in the place of a URL."""
    return options.mirror if isinstance(options.mirror, Path) else None


def _python(options: PlanOptions, request: Request, host: HostReport, conda: str | None) -> tuple[str, str]:
    """Return the interpreter and its version: of this machine, or the one that conda will install."""
    needs = request.loaded.recipe.needs.python
    if conda is None:
        found = require_python(resolve_python(options.python, base_environment()), needs, system=host.os)
        return found.executable, found.version
    version = python_version(read_lock(conda))
    if version not in SpecifierSet(needs):
        raise UnsatisfiableError(
            f"the conda lock has Python {version}, recipe '{request.loaded.recipe.name}' needs {needs}",
            fix="name another version with --python, such as --python 3.12, or give another --conda-lock",
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


def _jobs(value: str) -> int | Literal["auto"]:
    if value == "auto":
        return "auto"
    if not (value.isascii() and value.isdigit()) or int(value) < 1:
        raise UsageError(f"--jobs takes a number of at least 1 or 'auto', not '{value}'", fix="mend --jobs")
    return int(value)


def _oneapi(options: PlanOptions, request: Request, choice: Choice) -> OneapiFacts | None:
    needs = request.loaded.recipe.needs
    if choice.target != "xpu" or needs.oneapi is None:
        return None
    captured = oneapi_environment(
        OneapiNeeds(versions=needs.oneapi, components=tuple(needs.oneapi_components)),
        explicit_root=options.oneapi_root,
        caller_env=os.environ,
        cache_dir=platformdirs.user_cache_path("xpubuild"),
        mode=options.oneapi_mode,
    )
    base = base_environment()
    whole = apply(captured.diff, base)
    known = base.get("PATH", "").split(os.pathsep)
    front = tuple(item for item in whole.get("PATH", "").split(os.pathsep) if item and item not in known)
    return OneapiFacts(
        env={name: value for name, value in whole.items() if name != "PATH" and base.get(name) != value},
        path_prefix=front,
        difference=captured.diff.to_json(),
        digest=captured.digest,
        compiler_version=captured.compiler_version,
        components=tuple(component.to_json() for component in captured.components),
        warnings=tuple(finding.message for finding in captured.warnings),
    )


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

"""From options to a target and its plan: recipe, host and everything around them are looked at once each."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import platformdirs
from packaging.specifiers import SpecifierSet

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel
from xpubuild.errors import UnsatisfiableError, UsageError, XpuBuildError
from xpubuild.install.build_compilers import build_compilers, compile_cache
from xpubuild.install.build_jobs import capacity
from xpubuild.install.choose import check_host, choose
from xpubuild.install.kept import stores_of
from xpubuild.install.options import Options
from xpubuild.install.planner import make_plan
from xpubuild.install.release import named, with_alternatives
from xpubuild.install.supplies import (
    downloads_from,
    git_store,
    installer_for,
    remembered,
    resolve_commits,
)
from xpubuild.install.target import Choice, Prepared, Target
from xpubuild.machine.compilers import choose_compilers
from xpubuild.machine.disk import disk_facts
from xpubuild.machine.envmark import check_name
from xpubuild.machine.host_report import HostReport, host_report
from xpubuild.machine.python_choice import require_python, resolve_python
from xpubuild.recipe.compatible_host import of_host
from xpubuild.recipe.lint import unheard
from xpubuild.recipe.load import load, requirement_file
from xpubuild.recipe.switches import switches
from xpubuild.supply.depot.location import Location
from xpubuild.supply.git.integrity import dirty_digest
from xpubuild.workspace.layout import require_plain


def prepare(options: Options, *, cancel: Cancel | None = None) -> Prepared:
    """Look at recipe and host and return the target and its plan.

    Raises:
        XpuBuildError: one of RecipeError, UsageError, UnsatisfiableError, ToolchainError, FetchError; nothing
            was made.
    """
    _ = options.job_count  # a wrong number is reported before a host is looked at
    host = _Host(options)
    options, why = named(options, lambda: host.report)
    loaded = load(options.recipe or "")
    try:
        # Refusals that need no look at the machine come first: they are certain and cost nothing.
        choice = choose(options, loaded)
        require_plain(choice.layout.root)
        target = resolve(choice, host.at(choice.layout.root), why, cancel)
        return Prepared(target, make_plan(target), loaded.recipe.needs.disk_gib)
    except UnsatisfiableError as error:
        raise with_alternatives(error, loaded.recipe, options, host.report) from error


class _Host:
    """This host, examined once, when it is first needed."""

    def __init__(self, options: Options) -> None:
        self._options = options

    @functools.cached_property
    def report(self) -> HostReport:
        """The report; its disk is that of the current folder."""
        return host_report(oneapi_root=self._options.oneapi_root, python=self._python(), answers=remembered())

    def _python(self) -> Path | None:
        """The interpreter of the environment; what is wrong with it is reported where the plan needs it."""
        if self._options.packages == "conda":
            return None
        try:
            return resolve_python(self._options.python, base_environment())
        except XpuBuildError:
            return None

    def at(self, workspace: Path) -> HostReport:
        """Return the report with the disk of a workspace."""
        return replace(self.report, disk=disk_facts(workspace))


def resolve(choice: Choice, host: HostReport, why: str = "", cancel: Cancel | None = None) -> Target:
    """Return what was chosen with everything that this machine says of it.

    Raises:
        XpuBuildError: an interpreter, compiler, oneAPI, conda package or commit that is needed is not there.
    """
    recipe, choice = choice.recipe, _with_local_mirror(choice, cancel)
    options, conda = choice.options, conda_lock_of(choice)
    python, version = _python(choice, host, conda)
    compilers = choose_compilers(recipe.needs.gcc, caller=os.environ, system=host.os, known=host.compilers)
    gcc = compilers.cxx.version
    jobs, admission, makeflags = capacity(choice, host, gcc)
    oneapi, unknown_to_ocloc = None, None
    if choice.device == "xpu":
        from xpubuild.install.xpu_toolchain import ocloc_lacks, oneapi_facts  # noqa: PLC0415 - for XPU alone

        oneapi = oneapi_facts(choice)
        unknown_to_ocloc = ocloc_lacks(choice, gcc, oneapi, host.os) if oneapi is not None else None
    used = build_compilers(compilers, oneapi)
    builds = any(choice.component(name).kind == "source" for name in choice.components)
    asked = options.compile_cache, options.compile_cache_remote
    cache = compile_cache(*asked, used, oneapi) if builds else ""
    downloads = downloads_from(options.mirror_folder, offline=options.offline)
    target = Target(
        **vars(choice),
        python=python,
        python_version=version,
        compilers=used,
        jobs=jobs.jobs,
        jobs_reason=jobs.reason,
        cache=platformdirs.user_cache_path("xpubuild"),
        requirements=requirement_texts(choice),
        oneapi=oneapi,
        dirty=_dirty(choice),
        warnings=ignored_variables(choice, os.environ),
        situation=replace(of_host(host, choice.device), ocloc_lacks=unknown_to_ocloc),
        why=why,
        downloads=downloads,
        installer=installer_for(choice, downloads),
        conda_lock=conda,
        compile_cache=None if isinstance(cache, str) else cache,
        no_compile_cache=cache if isinstance(cache, str) else "",
        admission=admission,
        makeflags=makeflags,
        cores=host.cpu.usable,
        host=host.to_json(),
        stores=stores_of(options),
    )
    check_name(target.layout.env)
    verdict = check_host(target)
    # Upstream is asked last: for what this host cannot build no commit is needed.
    resolved = resolve_commits(choice, git_store(target, cancel=cancel))
    return replace(target, verdict=verdict, resolved=resolved)


def requirement_texts(choice: Choice) -> dict[str, str]:
    """Return the hashed requirement files of what was chosen by name."""
    names = choice.requirement_names()
    return {name: requirement_file(choice.loaded, name).read_text("utf-8") for name in names}


def conda_lock_of(choice: Choice) -> str | None:
    """Return the text of the conda-lock.yml for ``--packages conda``; None for a virtual environment.

    Raises:
        UnsatisfiableError, RecipeError, FetchError, ToolchainError: see ``conda_lock``.
    """
    if choice.options.packages == "conda":
        from xpubuild.install.conda_environment import conda_lock  # noqa: PLC0415 - for few

        return conda_lock(choice)
    if choice.options.conda_lock is not None:
        raise UsageError(
            "--conda-lock needs --packages conda", fix="add --packages conda, or omit --conda-lock"
        )
    return None


def ignored_variables(choice: Choice, caller: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning that names the variables which a build by hand would have read; nothing without them.

    The base environment is an allow-list, so they change nothing here, and who set them may think they do.
    """
    known = {switch.component for switch in switches().values() if switch.kind == "build"}
    built = any(name in known and choice.component(name).source for name in choice.components)
    kinds = {*(["build"] if built else []), *(["runtime"] if choice.device == "xpu" else [])}
    names = unheard(choice.recipe, kinds, caller, base_environment(caller))
    text = "set in your shell, ignored by the build (use the recipe or options): "
    return (text + ", ".join(names),) if names else ()


def _python(choice: Choice, host: HostReport, conda: str | None) -> tuple[str, str]:
    """Return the interpreter and its version: of this machine, or the one that conda will install."""
    recipe = choice.recipe
    if conda is None:
        executable = resolve_python(choice.options.python, base_environment())
        known = host.python.selected
        found = require_python(executable, recipe.needs.python, system=host.os, known=known)
        return found.executable, found.version
    from xpubuild.install.conda_environment import python_of  # noqa: PLC0415 - for few

    version = python_of(conda)
    if version not in SpecifierSet(recipe.needs.python):
        raise UnsatisfiableError(
            f"the conda lock has Python {version}, recipe '{recipe.name}' needs {recipe.needs.python}",
            fix="use another version with --python, such as --python 3.12, or another --conda-lock",
            evidence={"found": version, "needs": recipe.needs.python},
        )
    return str(choice.layout.python), version


def _dirty(choice: Choice) -> dict[str, str]:
    if not choice.options.allow_dirty:
        return {}
    found = {}
    for name in choice.components:
        checkout, source = choice.layout.src / name, choice.component(name).source
        skip = source.skip_submodules if source is not None else ()
        edits = dirty_digest(checkout, skip=skip) if (checkout / ".git").exists() else None
        if edits is not None:
            found[name] = edits
    return found


def _with_local_mirror(choice: Choice, cancel: Cancel | None) -> Choice:
    """From here on a mirror is a folder, wherever it is served."""
    options = choice.options
    if not isinstance(options.mirror, Location):
        return choice
    from xpubuild.supply.depot.served import Served, local_copy  # noqa: PLC0415 - requests, for few

    into = platformdirs.user_cache_path("xpubuild") / "mirrors" / options.mirror.folder_name
    served = Served(options.mirror, cancel)
    mirror = local_copy(served, into, choice.recipe.name, sink=options.telling, cancel=cancel)
    return replace(choice, options=replace(options, mirror=mirror))

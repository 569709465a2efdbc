"""From options to a plan: reads recipe, host and facts once each."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild.engine.environment import base_environment
from xpubuild.engine.model import Plan
from xpubuild.engine.process import Cancel
from xpubuild.errors import UnsatisfiableError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.install.choose import choose
from xpubuild.install.context import Context
from xpubuild.install.facts import facts_of
from xpubuild.install.newest_release import built_in, choose_release, entered, situation_for
from xpubuild.install.offline_compiler import older_gcc
from xpubuild.install.open_commits import resolve
from xpubuild.install.options import PlanOptions, request_of
from xpubuild.install.planner import make_context, make_plan
from xpubuild.install.refusal import with_alternatives
from xpubuild.install.remembered import remembered
from xpubuild.install.request import Facts, Request
from xpubuild.install.stores import NO_STORES, Stores, stores_of
from xpubuild.machine.disk import disk_facts
from xpubuild.machine.host_report import HostReport, host_report
from xpubuild.machine.python_choice import resolve_python
from xpubuild.recipe.load import load
from xpubuild.recipe.releases import is_release, releases
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.git import Git
from xpubuild.supply.mirror.remote.location import Location
from xpubuild.workspace.odd import require_plain


@frozen
class Prepared:
    """A plan with the facts it was made from."""

    plan: Plan
    context: Context
    host: Mapping[str, Any]
    disk_gib: float
    stores: Stores = NO_STORES

    @property
    def facts(self) -> Facts:
        """What is known of the host."""
        return self.context.facts


class _Host:
    """This host, examined once, when it is first needed."""

    def __init__(self, options: PlanOptions) -> None:
        self._options = options

    @functools.cached_property
    def report(self) -> HostReport:
        """The report; its disk is that of the current folder."""
        return host_report(oneapi_root=self._options.oneapi_root, python=self._python(), answers=remembered())

    def _python(self) -> Path | None:
        """The interpreter of the environment; what is wrong with it is said where the plan needs it."""
        if self._options.env == "conda":
            return None
        try:
            return resolve_python(self._options.python, base_environment())
        except XpuBuildError:
            return None

    def at(self, workspace: Path) -> HostReport:
        """Return the report with the disk of a workspace."""
        return replace(self.report, disk=disk_facts(workspace))


def prepare(options: PlanOptions, *, cancel: Cancel | None = None) -> Prepared:
    """Look at recipe and host and return the plan.

    Raises:
        XpuBuildError: one of RecipeError, UsageError, UnsatisfiableError, ToolchainError, FetchError; nothing
            was made.
    """
    _ = options.job_count  # a slip of the pen is told before a host is looked at
    host = _Host(options)
    options, why = _named(options, host)
    loaded = load(options.recipe or "")
    request = request_of(options, loaded)
    require_plain(request.workspace)
    try:
        context = _context(options, request, host, why, cancel)
        plan = make_plan(context)
    except UnsatisfiableError as error:
        raise _with_alternatives(error, options, request, host) from error
    return Prepared(
        plan=plan,
        context=context,
        host=host.at(request.workspace).to_json(),
        disk_gib=loaded.recipe.needs.disk_gib,
        stores=stores_of(options),
    )


def _context(options: PlanOptions, request: Request, host: _Host, why: str, cancel: Cancel | None) -> Context:
    # Refusals that need no look at the machine come first: they are certain and cost nothing.
    recipe, choice = request.loaded.recipe, choose(request)
    options = _with_local_mirror(options, recipe.name, cancel)
    facts = replace(facts_of(options, request, choice, host.at(request.workspace)), chosen=why)
    context = make_context(request, facts, choice)
    # Upstream is asked last: for what this host cannot build no commit is needed.
    found = options.resolved
    if found is None:
        store = git_store(facts, cancel=cancel)
        found = resolve(recipe, choice.components, context.layout, store=store, update=options.update)
    return replace(context, facts=replace(facts, resolved=found))


def _with_local_mirror(options: PlanOptions, recipe: str, cancel: Cancel | None) -> PlanOptions:
    """From here on a mirror is a folder, wherever it is served."""
    if not isinstance(options.mirror, Location):
        return options
    from xpubuild.install.served_mirror import local_mirror  # noqa: PLC0415 - requests, for few

    mirror = local_mirror(options.mirror, recipe, telling=options.telling, cancel=cancel)
    return replace(options, mirror=mirror)


def git_store(facts: Facts, *, cancel: Cancel | None = None) -> RepositoryStore:
    """Return the user's git mirrors, filled from where the facts say.

    Raises:
        ToolchainError: git is missing or too old.
    """
    downloads = facts.downloads
    stocks = (downloads.mirror,) if downloads.mirror is not None else ()
    return RepositoryStore(
        facts.cache,
        Git.open(answers=remembered()),
        offline=downloads.offline,
        stocks=stocks,
        cancel=cancel or Cancel(),
    )


def _named(options: PlanOptions, host: _Host) -> tuple[PlanOptions, str]:
    """Return the options with a recipe, and why that one: the workspace's own, else the newest."""
    if options.recipe is not None:
        return options, ""
    chosen = entered() if options.workspace is None else built_in(options.workspace)
    if chosen is None:
        situation = situation_for(host.report, options.target or "xpu", options.python)
        if options.cxx11_abi is not None:
            situation = replace(situation, cxx11_abi=int(options.cxx11_abi))
        chosen = choose_release(releases(), host.report, options.target, situation, options.with_)
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
    error: UnsatisfiableError, options: PlanOptions, request: Request, host: _Host
) -> UnsatisfiableError:
    """Return the error with the releases that would work here, where a constraint is what was broken."""
    recipe = request.loaded.recipe
    if not is_release(recipe):
        return error
    found = situation_for(host.report, request.target or recipe.target, options.python)
    situation = replace(
        found,
        # That none is installed is an error of its own; here it would hide what else fits.
        oneapi=found.oneapi or None,
        cxx11_abi=request.cxx11_abi,
        arch=request.arch or None,
    )
    given = (("--target", options.target), ("--python", options.python))
    words = [word for name, value in given if value is not None for word in (name, value)]
    told = with_alternatives(error, recipe, situation, releases(), words)
    told.commands = (*older_gcc(recipe, told.evidence.get("constraints", ()), os.environ), *told.commands)
    return told

"""The inputs of a recipe that a fetch downloads, without those that only a build needs.

A machine that only fetches needs no compiler, oneAPI or GPU.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import platformdirs

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel
from xpubuild.errors import LockMismatchError
from xpubuild.frozen import frozen
from xpubuild.install.choose import choose
from xpubuild.install.conda_packages import file_name
from xpubuild.install.context import Context
from xpubuild.install.facts import conda_lock_of
from xpubuild.install.inputs import Inputs, inputs_of
from xpubuild.install.lock_file import is_lock, read_lock
from xpubuild.install.lock_model import Lock
from xpubuild.install.lock_parts import clean_url
from xpubuild.install.locked_options import options_of, resolved_of
from xpubuild.install.open_commits import resolve
from xpubuild.install.options import PlanOptions, request_of
from xpubuild.install.planner import requirement_names
from xpubuild.install.prepare import prepare
from xpubuild.install.request import Compilers, Facts, Resolved
from xpubuild.machine.python_choice import resolve_python
from xpubuild.machine.pythons import probe_python
from xpubuild.recipe.load import load, requirement_file
from xpubuild.recipe.pythons import python_lines
from xpubuild.supply.conda.install import python_version
from xpubuild.supply.conda.lockfile import read_lock as read_conda_lock
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.workspace.layout import Layout

_NO_COMPILER = Compilers("", "", "0")


@frozen
class Wanted:
    """Inputs, the Python versions they are for, and the commits of tags that were looked up: (url, ref)."""

    inputs: Inputs
    pythons: tuple[str, ...]
    named: Mapping[tuple[str, str], str]
    conda_lock: str | None = None


def wanted(
    options: PlanOptions, for_python: str | None, *, store: RepositoryStore, cancel: Cancel | None = None
) -> Wanted:
    """Return what the build of ``options`` takes from outside.

    ``for_python`` is "3.10,3.11", "all", or None for the interpreter that ``install`` would take. ``store``
    looks up the commits of branches: in its stocks, and upstream where it is not offline.

    Raises:
        RecipeError, UsageError, UnsatisfiableError, FetchError, ToolchainError.
    """
    if options.recipe is None:
        context = prepare(options, cancel=cancel).context
    elif is_lock(options.recipe):
        return _of_lock(Path(options.recipe), options, for_python, store)
    else:
        context = _context(options, options.recipe, store)
    return _wanted(context, for_python)


def _wanted(context: Context, for_python: str | None) -> Wanted:
    recipe = context.recipe
    pythons = python_lines(recipe, for_python, context.facts.python_version)
    named = {(item.url, item.ref): item.commit for item in context.facts.resolved.values()}
    return Wanted(inputs_of(context), pythons, named, context.facts.conda_lock)


def _of_lock(path: Path, options: PlanOptions, for_python: str | None, store: RepositoryStore) -> Wanted:
    """Return what a lock names; where the recipe says otherwise by now, that is told and nothing fetched."""
    lock = read_lock(path)
    asked = options_of(lock, python=options.python)
    beside = path.with_name(file_name(lock.recipe.name))
    conda_lock = options.conda_lock or (beside if asked.env == "conda" and beside.is_file() else None)
    asked = replace(asked, workspace=options.workspace, conda_lock=conda_lock, report=options.report)
    name = asked.recipe or lock.recipe.name
    context = _context(asked, name, store, resolved_of(lock, load(name).recipe))
    found = inputs_of(context)
    pins = {item.component: item.pin.commit for item in (*found.repositories, *found.embedded)}
    texts = {item.name: hashlib.sha256(item.text.encode()).hexdigest() for item in found.requirements}
    locked = {name: item.commit for name, item in lock.repositories.items()}
    pins |= {item.key: clean_url(item.url or "") for item in found.archives}
    locked |= {item.key: item.url for item in lock.archives}
    files = {name: item.sha256 for name, item in lock.python.requirements.items()}
    for what in sorted({**pins, **locked, **texts, **files}):
        here, there = pins.get(what) or texts.get(what), locked.get(what) or files.get(what)
        if here != there:
            raise LockMismatchError(
                f"the lock {path} does not match the current recipe '{name}': {what} differs",
                why=f"the lock has {there or 'nothing'}, the recipe {here or 'nothing'}",
                fix="use the recipe that the lock was created from, or create a new lock",
                commands=(f"xpubuild lock {name}",),
                evidence={"what": what, "lock": there, "recipe": here},
            )
    wanted = _wanted(context, for_python or lock.options.python.version)
    return replace(wanted, inputs=_with_locked_hashes(wanted.inputs, lock))


def _with_locked_hashes(inputs: Inputs, lock: Lock) -> Inputs:
    """Return the inputs with the hashes of archives that upstream does not state and the lock has."""
    known = {item.key: item.sha256 for item in lock.archives}
    archives = tuple(replace(item, sha256=item.sha256 or known.get(item.key)) for item in inputs.archives)
    return replace(inputs, archives=archives)


def _context(
    options: PlanOptions,
    recipe_name: str,
    store: RepositoryStore,
    locked: Mapping[str, Resolved] | None = None,
) -> Context:
    loaded = load(recipe_name)
    recipe = loaded.recipe
    request = request_of(options, loaded)
    choice, layout = choose(request), Layout(request.workspace)
    resolved: Mapping[str, Resolved] = locked or resolve(
        recipe, choice.components, layout, store=store, update=options.update
    )
    conda = conda_lock_of(_conda_options(options, store), request)
    if conda is None:
        python = probe_python(resolve_python(options.python, base_environment()))
        executable, version = python.executable, python.version
    else:
        executable, version = str(layout.python), python_version(read_conda_lock(conda))
    facts = Facts(
        python=executable,
        python_version=version,
        conda_lock=conda,
        compilers=_NO_COMPILER,
        jobs=1,
        jobs_reason="",
        cache=platformdirs.user_cache_path("xpubuild"),
        requirements={
            name: requirement_file(loaded, name).read_text("utf-8")
            for name in requirement_names(request, choice)
        },
        resolved=resolved,
    )
    return Context(request, choice, facts, layout)


def _conda_options(options: PlanOptions, store: RepositoryStore) -> PlanOptions:
    """Return the options for the conda packages: a given lock asks for them, and the mirror may have one."""
    env = "conda" if options.conda_lock is not None else options.env
    return replace(options, env=env, mirror=store.cache, offline=store.offline)

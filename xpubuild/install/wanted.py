"""The inputs of a recipe that a fetch downloads, without those that only a build needs.

A machine that only fetches needs no compiler, oneAPI or GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import platformdirs

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel
from xpubuild.frozen import frozen
from xpubuild.install.choose import choose
from xpubuild.install.inputs import Inputs, inputs_of
from xpubuild.install.lock import recipe_of, requirement_file
from xpubuild.install.lock_file import Lock, compare, read_lock
from xpubuild.install.locked import conda_lock_beside, mismatch, options_of
from xpubuild.install.options import EnvKind, Options, is_lock
from xpubuild.install.resolve import conda_lock_of, prepare, requirement_texts, resolve_commits
from xpubuild.install.target import Target
from xpubuild.machine.pythons import probe_python, resolve_python
from xpubuild.recipe.choices import python_lines
from xpubuild.recipe.load import load
from xpubuild.supply.conda.lockfile import read_lock as read_conda_lock
from xpubuild.supply.git.bare import RepositoryStore


@frozen
class Wanted:
    """Inputs, the Python versions they are for, and the commits of tags that were looked up: (url, ref)."""

    inputs: Inputs
    pythons: tuple[str, ...]
    named: Mapping[tuple[str, str], str]
    conda_lock: str | None = None


def wanted(
    options: Options, for_python: str | None, *, store: RepositoryStore, cancel: Cancel | None = None
) -> Wanted:
    """Return what the build of ``options`` takes from outside.

    ``for_python`` is "3.10,3.11", "all", or None for the interpreter that ``install`` would take. ``store``
    looks up the commits of branches: in its stocks, and upstream where it is not offline.

    Raises:
        RecipeError, UsageError, UnsatisfiableError, FetchError, ToolchainError.
    """
    if options.recipe is None:
        target = prepare(options, cancel=cancel).target
    elif is_lock(options.recipe):
        return _of_lock(Path(options.recipe), options, for_python, store)
    else:
        target = _target(options, options.recipe, store)
    return _wanted(target, for_python)


def _wanted(target: Target, for_python: str | None) -> Wanted:
    recipe = target.recipe
    pythons = python_lines(recipe, for_python, target.python_version)
    named = {(item.url, item.ref): item.commit for item in target.resolved.values()}
    return Wanted(inputs_of(target), pythons, named, target.conda_lock)


def _of_lock(path: Path, options: Options, for_python: str | None, store: RepositoryStore) -> Wanted:
    """Return what a lock names; where the recipe says otherwise by now, that is told and nothing fetched."""
    lock = read_lock(path)
    given = Options(None, workspace=options.workspace, python=options.python, report=options.report)
    conda_lock = options.conda_lock or conda_lock_beside(path, lock)
    asked = replace(options_of(lock, given), conda_lock=conda_lock)
    target = _target(asked, asked.recipe or lock.name, store)
    files = {name: requirement_file(name, text) for name, text in target.requirements.items()}
    locked = {name: file.model_dump(exclude_defaults=True) for name, file in lock.requirements.items()}
    found = [
        *compare("recipe", lock.recipe, recipe_of(target)),
        *compare("requirements", locked, files),
    ]
    if found:
        raise mismatch(lock, found)
    wanted = _wanted(target, for_python or lock.options.python)
    return replace(wanted, inputs=_with_locked_hashes(wanted.inputs, lock))


def _with_locked_hashes(inputs: Inputs, lock: Lock) -> Inputs:
    """Return the inputs with the hashes of archives that upstream does not state and the lock has."""
    known = {name: item.sha256 for name, item in lock.archives.items()}
    archives = tuple(replace(item, sha256=item.sha256 or known.get(item.key)) for item in inputs.archives)
    return replace(inputs, archives=archives)


def _target(options: Options, name: str, store: RepositoryStore) -> Target:
    """Return the target without what only a build needs of this machine."""
    choice = choose(options, load(name))
    resolved = resolve_commits(choice, store)
    # A given lock asks for conda packages, and the mirror may have one.
    packages: EnvKind = "conda" if options.conda_lock is not None else options.packages
    asked = replace(options, packages=packages, mirror=store.cache, offline=store.offline)
    conda = conda_lock_of(replace(choice, options=asked))
    if conda is None:
        python = probe_python(resolve_python(options.python, base_environment()))
        executable, version = python.executable, python.version
    else:
        executable, version = str(choice.layout.python), read_conda_lock(conda).python
    return Target(
        **vars(choice),
        python=executable,
        python_version=version,
        conda_lock=conda,
        cache=platformdirs.user_cache_path("xpubuild"),
        requirements=requirement_texts(choice),
        resolved=resolved,
    )

"""Creates the complete lock of a prepared plan, for lock, check LOCK and install --locked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from xpubuild.engine.process import Cancel
from xpubuild.errors import UsageError
from xpubuild.install import lock_model as model
from xpubuild.install.lock_parts import (
    clean_values,
    conda_part,
    machine_part,
    oneapi_part,
    python_part,
    recipe_part,
    refused,
)
from xpubuild.install.locked_archives import locked_archives
from xpubuild.install.locked_sources import embedded_repository, fetched_repository
from xpubuild.install.options import EnvKind
from xpubuild.install.planner import Inputs, inputs, inputs_of
from xpubuild.install.target import Prepared, Target
from xpubuild.safe_yaml import read_yaml
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.git import Report

_FETCHES = 4


def make_lock(
    prepared: Prepared,
    *,
    store: RepositoryStore,
    report: Report,
    wheel_hashes: Mapping[str, Iterable[str]] | None = None,
    jobs: int = _FETCHES,
    cancel: Cancel | None = None,
) -> model.Lock:
    """Return the complete lock of a plan; its repositories are fetched into ``store``.

    ``wheel_hashes`` are those of open wheels that the caller knows, by component.

    Raises:
        UsageError: the plan builds a user's own edits, which no commit holds.
        RecipeError: something cannot be pinned; the message names it.
        FetchError, SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    target = prepared.target
    if target.dirty:
        raise UsageError(
            f"a lock cannot include local changes in {', '.join(target.dirty)}",
            why="they are not committed, so nobody else can build them",
            fix="commit them to a repository, pin that commit in your own recipe, and lock that recipe",
        )
    found = inputs_of(target)
    try:
        repositories = {
            item.component: fetched_repository(item, store=store, report=report, jobs=jobs)
            for item in found.repositories
        }
        repositories |= {item.component: embedded_repository(item, target) for item in found.embedded}
        archives = locked_archives(found.archives, target, report, cancel or Cancel())
        return offline_part(prepared, repositories, archives, wheel_hashes=wheel_hashes)
    except ValidationError as error:
        raise refused(error, f"recipe '{target.recipe.name}'") from error


def offline_part(
    prepared: Prepared,
    repositories: Mapping[str, model.Repository],
    archives: tuple[model.Archive, ...] = (),
    *,
    env: EnvKind | None = None,
    conda: model.Conda | None = None,
    wheel_hashes: Mapping[str, Iterable[str]] | None = None,
) -> model.Lock:
    """Return the lock with repositories and archives that are known already: nothing is fetched.

    ``env`` and ``conda`` are the plan's own where they are not given.

    Raises:
        RecipeError: a requirement file is not one of exact pins with hashes.
    """
    target = prepared.target
    said = inputs(target)
    return model.Lock(
        recipe=recipe_part(target.recipe.name, said["recipe"]),
        plan=prepared.plan.lock_digest,
        options=_options(target, env or context_env(target)),
        repositories=dict(repositories),
        python=_python(inputs_of(target), wheel_hashes or {}),
        conda=conda or _conda(target),
        archives=archives,
        machine=_machine(prepared),
    )


def _conda(target: Target) -> model.Conda | None:
    text = target.conda_lock
    return None if text is None else conda_part(read_yaml(text))


def context_env(target: Target) -> EnvKind:
    """Return what the environment of a plan is made of."""
    return "venv" if target.conda_lock is None else "conda"


def _options(target: Target, env: EnvKind) -> model.Options:
    return model.Options(
        target=target.device,
        variant=target.variant,
        arch=target.arch,
        cxx11_abi=1 if target.cxx11_abi else 0,
        components=target.components,
        env=env,
        python=model.PythonChoice(
            version=short_version(target.python_version), range=target.recipe.needs.python
        ),
        flags={name: clean_values(flags) for name, flags in target.switches.items()},
    )


def short_version(version: str) -> str:
    """Return 3.11 for 3.11.7."""
    return ".".join(version.split(".")[:2])


def _python(found: Inputs, hashes: Mapping[str, Iterable[str]]) -> model.Python:
    return python_part(
        {item.name: item.text for item in found.requirements},
        [(item.component, item.dist, item.version) for item in found.wheels],
        hashes,
    )


def _machine(prepared: Prepared) -> model.Machine:
    target = prepared.target
    oneapi = None
    if target.oneapi is not None:
        components = [_as_it_says(item, target.oneapi.compiler_version) for item in target.oneapi.components]
        oneapi = oneapi_part(components, target.oneapi.difference, _places(target.oneapi.components))
    return machine_part(
        target.host,
        python=target.python_version,
        compilers=target.compilers.key,
        oneapi=oneapi,
        with_driver=target.device == "xpu",
    )


def _as_it_says(component: Mapping[str, Any], compiler: str | None) -> Mapping[str, Any]:
    """Return a component with the version that the compiler itself says: its folder's name is shorter."""
    return {**component, "version": compiler} if component["name"] == "compiler" and compiler else component


def _places(components: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the folders that may be in oneAPI's environment, and the words that stand for them."""
    found = {str(Path.home()): "{home}"}
    for item in components:
        path = Path(str(item["path"]))
        # ROOT/compiler/2025.1 in the one layout, ROOT/2025.1 in the other.
        root = path.parent.parent if path.parent.name == item["name"] else path.parent
        found[str(root)] = "{oneapi}"
    user = os.environ.get("HOME")
    return [*found.items(), *([(user, "{home}")] if user else [])]

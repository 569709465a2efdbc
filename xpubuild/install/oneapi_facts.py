"""oneAPI and the offline compiler as one build gets them."""

from __future__ import annotations

import os
from dataclasses import replace

import platformdirs

from xpubuild.engine.environment import base_environment
from xpubuild.engine.fingerprint import digest
from xpubuild.install.options import PlanOptions
from xpubuild.install.request import Choice, OneapiFacts
from xpubuild.install.site_folders import extended, site_folders
from xpubuild.machine.system import OsFacts
from xpubuild.recipe.model import Recipe


def oneapi_facts(options: PlanOptions, recipe: Recipe, choice: Choice) -> OneapiFacts | None:
    """Return the oneAPI environment of a build with the folders of the site; None for a build without.

    Raises:
        UsageError: a folder of the options is not there.
        XpuBuildError: see ``oneapi_environment``.
    """
    folders, needs = site_folders(options, choice.target), recipe.needs
    if choice.target != "xpu" or needs.oneapi is None:
        return None
    from xpubuild.install.adapters import lost_adapters  # noqa: PLC0415 - for builds with oneAPI
    from xpubuild.machine.envdiff import apply  # noqa: PLC0415
    from xpubuild.machine.oneapi_environment import OneapiNeeds, oneapi_environment  # noqa: PLC0415

    captured = oneapi_environment(
        OneapiNeeds(
            versions=needs.oneapi,
            components=tuple(needs.oneapi_components),
            beside_compiler=tuple(needs.oneapi_beside_compiler),
            optional=tuple(needs.oneapi_optional),
        ),
        explicit_root=options.oneapi_root,
        caller_env=os.environ,
        cache_dir=platformdirs.user_cache_path("xpubuild"),
        mode=options.oneapi_mode,
    )
    difference = replace(captured.diff, paths=extended(captured.diff.paths.items(), folders))
    base = base_environment()
    whole = apply(difference, base)
    known = {*base.get("PATH", "").split(os.pathsep)} - {*folders.get("PATH", ())}
    front = tuple(item for item in whole.get("PATH", "").split(os.pathsep) if item and item not in known)
    return OneapiFacts(
        env={name: value for name, value in whole.items() if name != "PATH" and base.get(name) != value},
        path_prefix=front,
        difference=difference.to_json(),
        digest=digest({"oneapi": captured.digest, "folders": folders}) if folders else captured.digest,
        compiler_version=captured.compiler_version,
        components=tuple(component.to_json() for component in captured.components),
        warnings=(*(finding.message for finding in captured.warnings), *lost_adapters(captured, whole)),
    )


def ocloc_lacks(
    recipe: Recipe, choice: Choice, gcc: str, oneapi: OneapiFacts | None, system: OsFacts
) -> tuple[str, ...] | None:
    """Return what the build's ocloc does not compile, tried in the environment that the build will have.

    Raises:
        ToolchainError: the build needs ocloc, and there it is missing or does not run.
    """
    if oneapi is None:
        return None
    from xpubuild.install.offline_compiler import lists_of, unknown_targets  # noqa: PLC0415

    build = {**base_environment(), **oneapi.env}
    build["PATH"] = os.pathsep.join((*oneapi.path_prefix, build["PATH"]))
    return unknown_targets(lists_of(recipe, choice, gcc), build, os.environ, system)

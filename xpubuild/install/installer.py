"""Whether uv or pip installs hashed requirement files, and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import platformdirs

from xpubuild.engine.environment import base_environment
from xpubuild.errors import UsageError
from xpubuild.install.options import PlanOptions
from xpubuild.install.remembered import remembered
from xpubuild.install.request import Downloads, Installer
from xpubuild.supply.index.pipconf import pip_settings


def installer_for(options: PlanOptions, workspace: Path, downloads: Downloads) -> Installer:
    """Return uv where it can be used and is not ruled out, else pip with the reason.

    Raises:
        UsageError: uv was asked for and cannot be used.
        ToolchainError: a configuration file of pip cannot be read.
    """
    if options.installer == "pip":
        return Installer(why="--installer pip")
    found, remedy = _uv(options, workspace, downloads)
    if options.installer == "uv" and found.uv is None:
        raise UsageError(
            "--installer uv cannot be used here",
            why=found.why,
            fix="install uv beside xpubuild, or omit --installer: then pip is used"
            if remedy
            else "omit --installer: then pip is used",
            commands=(remedy,) if remedy else (),
        )
    return found


def _uv(options: PlanOptions, workspace: Path, downloads: Downloads) -> tuple[Installer, str]:
    """Return uv, or why it is pip, and the command that mends uv where that is why."""
    if options.env == "conda":
        return Installer(why="the environment is of conda"), ""
    from xpubuild.supply.uv.cache import not_ours  # noqa: PLC0415 - for few
    from xpubuild.supply.uv.program import find_uv  # noqa: PLC0415
    from xpubuild.supply.uv.settings import reason_for_pip  # noqa: PLC0415

    environment = base_environment()
    cache = platformdirs.user_cache_path("xpubuild") / "uv"
    program = find_uv(environment, answers=remembered())
    why = program.why or reason_for_pip(_settings(environment, downloads)) or not_ours(cache)
    if why:
        return Installer(why=why), program.remedy
    return Installer(program.path, program.version, cache, links=_device(cache) == _device(workspace)), ""


def _settings(environment: Mapping[str, str], downloads: Downloads) -> dict[str, str]:
    """Return pip's settings, without what an offline build says of pip's own cache."""
    found = pip_settings({**environment, **downloads.pip})
    return {
        name: value
        for name, value in found.items()
        if name != "no-cache-dir" or "PIP_NO_CACHE_DIR" not in downloads.pip
    }


def _device(path: Path) -> int:
    there = next(place for place in (path, *path.parents) if place.exists())
    return there.stat().st_dev

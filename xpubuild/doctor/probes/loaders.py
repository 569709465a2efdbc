"""Copies of the Level Zero loader on a host, and who needs a recent one."""

from __future__ import annotations

import re

from xpubuild.doctor.context import CheckContext
from xpubuild.doctor.probes.level_zero_child import LOADER
from xpubuild.host.readers import exists

#: Where loaders look by themselves on the distributions of Max hosts.
FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64")
_NUMBERS = re.compile(r"\d+")
_BEFORE = "2024.2"
_AFTER = ("2025.0", "2025.1", "2025.2", "2025.3", "2026.0", "2026.1")


def loader_copies(context: CheckContext) -> tuple[str, ...]:
    """Return the loaders in LD_LIBRARY_PATH and in the system's folders, in the order they would be found."""
    named = context.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders = dict.fromkeys((*(folder for folder in named if folder.startswith("/")), *FOLDERS))
    return tuple(f"{folder}/{LOADER}" for folder in folders if exists(context.path(f"{folder}/{LOADER}")))


def older(one: str, other: str) -> bool:
    """Whether a version of numbers and dots comes before another: 1.8.0 before 1.19.2."""
    return _key(one) < _key(other)


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBERS.findall(version))


def loader_needed_by(context: CheckContext) -> str:
    """Say what needs a recent loader: a recipe for oneAPI 2025.0 or later; empty where nothing does."""
    if context.recipe is None:
        return ""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - only with a recipe

    recipe = context.recipe.recipe
    wanted = recipe.needs.oneapi
    if wanted is None or recipe.target != "xpu":
        return ""
    allowed = SpecifierSet(wanted)
    if allowed.contains(_BEFORE) or not any(allowed.contains(version) for version in _AFTER):
        return ""
    return f"the recipe {recipe.name} uses oneAPI {wanted}"

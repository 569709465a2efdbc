"""Copies of the Level Zero loader on a host, and who needs a recent one."""

from __future__ import annotations

import re

from xpubuild.doctor.kit import Look
from xpubuild.doctor.look import libraries
from xpubuild.doctor.look.torches import torch_of
from xpubuild.doctor.probes.level_zero_child import LOADER
from xpubuild.machine.readers import exists

#: Where loaders look by themselves on the distributions of Max hosts.
FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64")
_NUMBERS = re.compile(r"\d+")
#: The libsycl of oneAPI 2024.
_OLD_MAJOR = 7
_BEFORE = "2024.2"
_AFTER = ("2025.0", "2025.1", "2025.2", "2025.3", "2026.0", "2026.1")


def loader_copies(look: Look) -> tuple[str, ...]:
    """Return the loaders in LD_LIBRARY_PATH and in the system's folders, in the order they would be found."""
    named = look.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders = dict.fromkeys((*(folder for folder in named if folder.startswith("/")), *FOLDERS))
    return tuple(f"{folder}/{LOADER}" for folder in folders if exists(look.path(f"{folder}/{LOADER}")))


def older(one: str, other: str) -> bool:
    """Whether a version of numbers and dots comes before another: 1.8.0 before 1.19.2."""
    return _key(one) < _key(other)


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBERS.findall(version))


def loader_needed_by(look: Look) -> str:
    """Say what needs a recent loader: a recipe for oneAPI 2025.0 or later; empty where nothing does."""
    recipe = _wants(look)
    return recipe if recipe and not _before_2025(look) else ""


def old_runtime(look: Look) -> str:
    """Say which recipe or torch uses a SYCL runtime from before oneAPI 2025.0, or nothing."""
    if look.recipe is not None and look.recipe.recipe.target == "xpu":
        return _wants(look) if _before_2025(look) else ""
    torch = torch_of(look)
    elf = libraries.elf_of(torch.folder / "lib" / "libc10_xpu.so") if torch else None
    majors = {libraries.sycl_major(name) for name in elf.needed} - {None} if elf else set()
    if torch is None or majors != {_OLD_MAJOR}:
        return ""
    return f"torch {torch.version} needs libsycl.so.{_OLD_MAJOR}, of oneAPI 2024"


def _wants(look: Look) -> str:
    """Return which oneAPI the recipe uses, in words, or nothing."""
    recipe = look.wanted
    if recipe is None or recipe.needs.oneapi is None or recipe.target != "xpu":
        return ""
    return f"the recipe {recipe.name} uses oneAPI {recipe.needs.oneapi}"


def _before_2025(look: Look) -> bool:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - only with a recipe

    wanted = look.recipe.recipe.needs.oneapi if look.recipe else None
    allowed = SpecifierSet(wanted or "")
    return allowed.contains(_BEFORE) or not any(allowed.contains(version) for version in _AFTER)

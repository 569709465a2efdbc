"""Compares version constraints of recipes with the names of oneAPI's folders."""

from __future__ import annotations

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from xpubuild.errors import RecipeError
from xpubuild.machine.oneapi_bundles import parse_version

_HIGHEST_PATCH = 9999


def specifier(text: str) -> SpecifierSet:
    """Read a version specifier of a recipe.

    Raises:
        RecipeError: it is not one.
    """
    try:
        return SpecifierSet(text, prereleases=True)
    except InvalidSpecifier as error:
        raise RecipeError(
            f"'{text}' is not a version specifier for oneAPI",
            why=str(error),
            fix='write it like ">=2025.1,<2025.2"',
        ) from error


def may_satisfy(folder: str, wanted: SpecifierSet) -> bool | None:
    """Whether a folder's version can meet a constraint; None where its name is not a version.

    A folder named 2025.1 may hold any patch release of 2025.1, so ">=2025.1.1" is still possible; the
    compiler itself is asked later.
    """
    version = parse_version(folder)
    if version is None:
        return None
    if len(version.release) != len(("major", "minor")):
        return wanted.contains(version, prereleases=True)
    patches = {0, _HIGHEST_PATCH}
    for clause in wanted:
        bound = parse_version(clause.version.removesuffix(".*"))
        if bound is not None and len(bound.release) > len(version.release):
            patches.update({max(bound.micro - 1, 0), bound.micro})
    possible = [version, *(Version(f"{version.major}.{version.minor}.{patch}") for patch in sorted(patches))]
    return any(wanted.contains(candidate, prereleases=True) for candidate in possible)

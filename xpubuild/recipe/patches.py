"""Patch releases of a line: ``2.7.0`` is the recipe ``2.7`` with what its ``patches`` say about 2.7.0."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from xpubuild.errors import RecipeError
from xpubuild.recipe.order import in_order

_PATCH = re.compile(r"(\d+\.\d+)\.\d+(?:\.post\d+|rc\d+)?")
#: What makes a recipe the recipe that it is; a patch release cannot be of another line or format.
_FIXED = ("schema", "name", "extends", "abstract", "release", "patches")


def line_of(name: str) -> str | None:
    """Return the line that a patch release belongs to, ``2.7`` for ``2.7.0``; None for any other name."""
    found = _PATCH.fullmatch(name)
    return found[1] if found is not None else None


def patches_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``patches`` of a document as they are written; their form is checked by the schema."""
    found = document.get("patches")
    return dict(found) if isinstance(found, Mapping) else {}


def known_releases(document: Mapping[str, Any]) -> list[str]:
    """Return the releases of a line that can be asked for, the newest (the recipe itself) first."""
    newest = document.get("release")
    first = [str(newest)] if newest is not None else []
    return [*first, *reversed(in_order(str(item) for item in patches_of(document)))]


def over_of(document: Mapping[str, Any], line: str, version: str) -> dict[str, Any]:
    """Return what has to be laid over the recipe of a line to get one of its releases.

    Raises:
        RecipeError: the line has no such release, or says something about it that no patch can change.
    """
    named = {"name": version, "release": version}
    if version == document.get("release"):
        return named
    changes = patches_of(document).get(version)
    if not isinstance(changes, Mapping):
        releases = known_releases(document)
        raise RecipeError(
            f"recipe '{line}' has no release {version}",
            why=f"it has: {', '.join(releases)}" if releases else "it has no other releases",
            fix="use one of these, or write your own recipe that extends it",
            commands=(f"xpubuild recipes show {line}", "xpubuild recipes list"),
        )
    wrong = [key for key in _FIXED if key in changes]
    if wrong:
        raise RecipeError(
            f"recipe '{line}' changes '{wrong[0]}' for its release {version}",
            why=f"a patch release can change everything except {', '.join(_FIXED)}",
            fix=f"remove patches.{version}.{wrong[0]}",
        )
    # What the line says about its other patch releases is not about this one.
    return {**changes, **named, "patches": None}

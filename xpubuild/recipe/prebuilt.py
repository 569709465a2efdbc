"""The wheels that a recipe takes prebuilt, as the package indexes are asked for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xpubuild.recipe.model import Component
from xpubuild.supply.uv.settings import Prebuilt


def prebuilt(components: Iterable[Component], text: Callable[[str], str]) -> tuple[Prebuilt, ...]:
    """Return the prebuilt ones of ``components``; ``text`` reads a requirement file by its name."""
    return tuple(
        Prebuilt(
            item.dist,
            str(item.version),
            tuple(item.indexes),
            text(item.requirements) if item.requirements else "",
        )
        for item in components
        if item.kind == "wheel"
    )

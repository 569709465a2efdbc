"""The values of a recipe that are compared with the source tree of a component."""

from __future__ import annotations

from typing import Any

from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.recipe.model import Recipe


@frozen
class PinFile:
    """A file of the tree that names the commit or tag of what the build clones or downloads.

    ``key`` is the part of the component in the recipe that says the same.
    """

    file: str
    url: str
    commit: str | None = None
    ref: str | None = None
    key: str = "source.configure_time"


@frozen
class Expected:
    """What a recipe says about the source tree of one of its components."""

    recipe: str
    component: str
    version: str | None = None
    release: str | None = None
    requires_python: str | None = None
    python: str | None = None
    pins: tuple[PinFile, ...] = ()
    triton_commit: str | None = None
    triton_version: str | None = None
    skip: tuple[str, ...] = ()
    commit: str | None = None
    folder: str = "."

    def key(self) -> dict[str, Any]:
        """Return what a check depends on, as JSON; the commit is the business of the checkout's own proof."""
        return {
            "version": self.version,
            "release": self.release,
            "requires_python": self.requires_python,
            "python": self.python,
            "pins": [[pin.file, pin.commit, pin.ref] for pin in self.pins],
            "triton": [self.triton_commit, self.triton_version],
            "skip": sorted(self.skip),
            "folder": self.folder,
        }


def expected(recipe: Recipe, component: str) -> Expected:
    """Return what a recipe says about the tree of a component.

    Raises:
        UsageError: it has no such component, or takes it prebuilt.
    """
    chosen = recipe.components.get(component)
    if chosen is None or chosen.source is None or chosen.source.embedded is not None:
        named = [name for name, item in recipe.components.items() if item.source and item.source.url]
        raise UsageError(
            f"recipe '{recipe.name}' has no source tree of '{component}'",
            why=f"components that are built from source: {', '.join(named) or 'none'}",
            fix="put the component before the folder: --tree COMPONENT=DIR",
        )
    source, triton = chosen.source, recipe.components.get("triton") if component == "torch" else None
    return Expected(
        recipe=recipe.name,
        component=component,
        version=source.version,
        release=recipe.release if component == "torch" else chosen.version,
        requires_python=source.requires_python,
        # What the recipe needs is said of torch; pip itself holds other wheels against the interpreter.
        python=recipe.needs.python if component == "torch" else None,
        pins=tuple(
            PinFile(item.pin_file, item.url, item.commit, item.ref)
            for item in source.configure_time
            if item.pin_file is not None
        )
        + tuple(
            PinFile(
                item.pin_file,
                item.url or f"the archive {key}",
                item.commit,
                item.ref,
                f"build.archives.{key}",
            )
            for key, item in chosen.build.archives.items()
            if item.pin_file is not None
        ),
        triton_commit=(triton.commit or (triton.source.commit if triton.source else None))
        if triton
        else None,
        triton_version=triton.version if triton is not None else None,
        skip=tuple(source.skip_submodules),
        commit=source.commit,
        folder=chosen.build.source_dir,
    )

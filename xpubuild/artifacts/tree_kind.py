"""The kind of project of a source tree, read from its files without running anything."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from xpubuild.artifacts.site_packages import installed_dists, site_packages_of
from xpubuild.errors import RecipeError
from xpubuild.frozen import frozen

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: What pip takes where ``pyproject.toml`` names no backend, or is not there (PEP 517).
LEGACY = "setuptools.build_meta:__legacy__"
# Understood by scikit-build-core alone; other backends ignore what they do not know.
_SCIKIT = re.compile(
    r"build-dir|cmake\.|ninja\.|wheel\.|editable\.|install\.|build\.|strict-config|skbuild\."
)


@frozen
class TreeKind:
    """``backend`` is what pip will call, ``requires`` what the tree says that needs to be there."""

    files: tuple[str, ...]
    backend: str
    requires: tuple[str, ...]

    @property
    def scikit(self) -> bool:
        """Whether it is a tree of scikit-build-core."""
        return self.backend.startswith("scikit_build_core")

    def __str__(self) -> str:
        """Say it in a line."""
        return f"{' and '.join(self.files)}, backend {self.backend}"


def look(folder: Path) -> TreeKind:
    """Return what kind of project a folder is.

    Raises:
        RecipeError: it is none.
    """
    present = tuple(name for name in ("pyproject.toml", "setup.py") if (folder / name).is_file())
    if not present:
        raise RecipeError(
            f"{folder} has neither pyproject.toml nor setup.py",
            why="there is nothing to build",
            fix="set build.source_dir to the folder inside the checkout that has one",
        )
    try:
        text = (folder / present[0]).read_text("utf-8", "replace") if present[0] == "pyproject.toml" else ""
        section = tomllib.loads(text).get("build-system", {})
        return TreeKind(
            present, str(section.get("build-backend", LEGACY)), tuple(section.get("requires", ()))
        )
    except (tomllib.TOMLDecodeError, RecursionError, AttributeError, TypeError) as error:
        raise RecipeError(
            f"{folder / present[0]} cannot be read",
            why=str(error),
            fix="correct the file, or build another commit",
        ) from error


def check(folder: Path, env: Path, *, wanted: str, settings: Collection[str]) -> Iterator[str]:
    """Compare a tree with what a recipe says about its front end; yield what was found, line by line.

    Raises:
        RecipeError: the recipe says what the tree cannot do, or would ignore.
        ToolchainError: the environment is none.
    """
    kind = look(folder)
    yield f"{folder}: {kind}"
    if wanted == "setup.py" and "setup.py" not in kind.files:
        raise RecipeError(
            f"{folder} has no setup.py, but the recipe sets front_end: setup.py",
            why=f"it has {kind}",
            fix="remove build.front_end from the recipe: pip can build every kind of tree",
        )
    ignored = [] if kind.scikit else sorted(key for key in settings if _SCIKIT.match(key))
    if ignored:
        raise RecipeError(
            f"the recipe's config settings {', '.join(ignored)} would be ignored",
            why=f"they are for scikit-build-core, but the tree has {kind}",
            fix="remove build.config_settings, and set the same with build.env",
        )
    if kind.scikit and "build-dir" not in settings:
        yield "no build-dir in the config settings: every build starts from scratch"
    missing = _missing(kind, env)
    if missing:
        # No error: trees name what only some of their builds use, PyTorch's did so with astunparse for years.
        yield f"the tree requires {', '.join(missing)} to build, but the environment does not have it"


def _missing(kind: TreeKind, env: Path) -> list[str]:
    """Return what the tree builds with and is not installed; versions are the recipe's business."""
    present = {dist.name for dist in installed_dists(site_packages_of(env))}
    needed: list[str] = []
    for text in kind.requires or ("setuptools",):
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate():
            needed.append(canonicalize_name(requirement.name))
    return [name for name in dict.fromkeys(needed) if name not in present]

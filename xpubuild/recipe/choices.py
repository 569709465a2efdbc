"""What a recipe can be built for: its targets and lines of CPython (3.11)."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet

from xpubuild.errors import UnsatisfiableError, UsageError
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.values import Target

#: CPython lines that wheels of PyTorch or its tools have been made for.
_LINES = tuple(f"3.{minor}" for minor in range(9, 15))


def target_of(recipe: Recipe, wanted: Target | None) -> Target:
    """Return the target that is wanted, else the recipe's own.

    Raises:
        UnsatisfiableError: the recipe cannot be built for it.
    """
    target = wanted or recipe.target
    if target not in recipe.targets:
        raise UnsatisfiableError(
            f"recipe '{recipe.name}' has no target '{target}'",
            why=f"it can be built for: {', '.join(recipe.targets)}",
            fix=f"omit --target, or use --target {recipe.targets[0]}",
        )
    return target


def python_lines(recipe: Recipe, given: str | None, own: str) -> tuple[str, ...]:
    """Return the lines that ``--for-python`` names: "3.10,3.11", "all", or None for that of ``own``.

    Raises:
        UsageError: it names no version of Python.
        UnsatisfiableError: a version does not fit the recipe.
    """
    needs = SpecifierSet(recipe.needs.python)

    def fits(line: str) -> bool:
        return any(needs.contains(f"{line}.{micro}", prereleases=True) for micro in (0, 99))

    if given == "all":
        return tuple(filter(fits, _LINES))
    asked = [item.strip() for item in (own if given is None else given).split(",") if item.strip()]
    asked = [".".join(item.split(".")[:2]) for item in asked] if given is None else asked
    for line in asked or [""]:
        if line.count(".") != 1 or not line.replace(".", "").isdigit():
            raise UsageError(
                f"--for-python must be versions such as 3.10,3.11 or 'all', not '{line}'",
                fix="pass versions such as 3.10,3.11, or 'all'",
            )
        if not fits(line):
            raise UnsatisfiableError(
                f"Python {line} is not supported by recipe '{recipe.name}'",
                why=f"the recipe needs Python {recipe.needs.python}",
                fix="pass supported versions with --for-python",
                evidence={"found": line, "needs": recipe.needs.python},
            )
    return tuple(dict.fromkeys(asked))

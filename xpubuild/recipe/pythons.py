"""Which lines of CPython (3.11) a recipe can be built for."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet

from xpubuild.errors import UnsatisfiableError, UsageError
from xpubuild.recipe.model import Recipe

#: CPython lines that wheels of PyTorch or its tools have been made for.
_LINES = tuple(f"3.{minor}" for minor in range(9, 15))


def allowed_pythons(recipe: Recipe) -> tuple[str, ...]:
    """Return the lines of CPython (3.11) that a recipe allows."""
    return python_lines(recipe, "all", "")


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
        return tuple(line for line in _LINES if fits(line))
    if given is None:
        asked = [".".join(own.split(".")[:2])]
    else:
        asked = [item.strip() for item in given.split(",") if item.strip()]
    for line in asked:
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
    if not asked:
        raise UsageError("--for-python has no version", fix="pass versions such as 3.10,3.11, or 'all'")
    return tuple(dict.fromkeys(asked))

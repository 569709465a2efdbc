"""``--matrix``: recipes, interpreters and variants, of which every combination is built."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from xpubuild.errors import RecipeError, UsageError
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml_strict
from xpubuild.untrusted import UntrustedError, read_text

_LISTS = ("recipes", "pythons", "variants")
_KEYS = (*_LISTS, "exclude")
_OF_ROW = {"recipe": 0, "python": 1, "variant": 2}


@frozen
class Row:
    """One combination; None is what the command line says."""

    recipe: str
    python: str | None
    variant: str | None


def matrix_of(words: Sequence[str]) -> tuple[Row, ...]:
    """Return the combinations of a file, or of words such as ``recipes=2.8,2.13`` and ``variants=minimal``.

    Raises:
        UsageError: both, or two files.
        RecipeError: the file cannot be read, or says something else.
    """
    lists = [word.split("=", 1) for word in words if word.partition("=")[0] in _LISTS]
    if not lists:
        if len(words) > 1:
            raise UsageError("--matrix names two files", fix=f"pass one of {' and '.join(words)}")
        return _read(Path(words[0]).expanduser())
    if len(lists) < len(words):
        raise UsageError(
            "--matrix names a file and lists", fix=f"pass the file alone, or lists: {', '.join(_LISTS)}"
        )
    document: dict[str, list[str]] = {}
    for key, values in lists:
        document.setdefault(key, []).extend(item.strip() for item in values.split(",") if item.strip())
    if not document.get("recipes"):
        raise UsageError(
            "--matrix names no recipe", fix="add --matrix recipes=NAMES, such as recipes=2.8,2.13"
        )
    return expand(document, Path("--matrix"))


def _read(path: Path) -> tuple[Row, ...]:
    try:
        document = read_yaml_strict(read_text(path))
    except (OSError, UnicodeDecodeError, UntrustedError, yaml.YAMLError, RecursionError) as error:
        raise _wrong(path, str(error)) from error
    return expand(document, path)


def expand(document: Any, path: Path) -> tuple[Row, ...]:
    """Return the combinations of a document; files of recipes are relative to the folder of ``path``."""
    if not isinstance(document, dict) or not set(document) <= set(_KEYS):
        raise _wrong(path, f"it must be a YAML mapping with the keys {', '.join(_KEYS)}")
    recipes = [_place(name, path.parent) for name in _names(document, "recipes", path)]
    if not recipes:
        raise _wrong(path, "'recipes' must be a list with at least one name or file")
    pythons: list[str | None] = [*_names(document, "pythons", path)] or [None]
    variants: list[str | None] = [*_names(document, "variants", path)] or [None]
    left_out = document.get("exclude") or []
    if not isinstance(left_out, list) or not all(_is_exclusion(item) for item in left_out):
        raise _wrong(path, f"'exclude' must be a list of mappings with {', '.join(_OF_ROW)}")
    named = [{**item, **_recipe_of(item, path.parent)} for item in left_out]
    rows = dict.fromkeys(itertools.product(recipes, pythons, variants))
    kept = [row for row in rows if not any(_matches(item, row) for item in named)]
    if not kept:
        raise _wrong(path, "'exclude' leaves nothing to build")
    return tuple(Row(*row) for row in kept)


def _names(document: dict[str, Any], key: str, path: Path) -> list[str]:
    found = document.get(key) or []
    # 2.10 without quotes is the number 2.1 in YAML, which nobody can tell from 2.1.
    if not isinstance(found, list) or not all(isinstance(item, str) and item.strip() for item in found):
        raise _wrong(path, f"'{key}' must be a list of texts; write versions in quotes: \"2.10\"")
    return found


def _place(name: str, folder: Path) -> str:
    is_file = os.sep in name or name.endswith((".yaml", ".yml"))
    return str(folder / Path(name).expanduser()) if is_file else name


def _recipe_of(item: dict[str, str], folder: Path) -> dict[str, str]:
    return {"recipe": _place(item["recipe"], folder)} if "recipe" in item else {}


def _is_exclusion(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and bool(item)
        and all(key in _OF_ROW and isinstance(value, str) for key, value in item.items())
    )


def _matches(item: dict[str, str], row: tuple[str | None, ...]) -> bool:
    return all(row[_OF_ROW[key]] == value for key, value in item.items())


def _wrong(path: Path, why: str) -> RecipeError:
    return RecipeError(
        f"the matrix {path} cannot be used",
        why=why,
        fix="correct the file; the shortest valid one is 'recipes: [\"2.8\"]'",
    )

"""``--matrix``: recipes, interpreters and variants, of which every combination is built."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from xpubuild.errors import RecipeError, UsageError
from xpubuild.safe_yaml import read_yaml_strict
from xpubuild.untrusted import UntrustedError, read_text

_LISTS = ("recipes", "pythons", "variants")


class Row(NamedTuple):
    """One combination; None is what the command line says."""

    recipe: str
    python: str | None
    variant: str | None


_Name = Annotated[str, Field(pattern=r"\S")]


class _Exclusion(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    recipe: _Name | None = None
    python: _Name | None = None
    variant: _Name | None = None

    @model_validator(mode="after")
    def _says_something(self) -> _Exclusion:
        if not self.model_fields_set:
            raise ValueError("an exclusion names a recipe, a python or a variant")
        return self


class _Matrix(BaseModel):
    # Strict: 2.10 without quotes is the number 2.1 in YAML, which nobody can tell from 2.1.
    model_config = ConfigDict(extra="forbid", strict=True)
    recipes: list[_Name] = Field(min_length=1)
    pythons: list[_Name] = []
    variants: list[_Name] = []
    exclude: list[_Exclusion] = []


def matrix_of(words: Sequence[str]) -> tuple[Row, ...]:
    """Return the combinations of a file, or of words such as ``recipes=2.8,2.13`` and ``variants=minimal``.

    Raises:
        UsageError: both, or two files.
        RecipeError: the file cannot be read, or says something else.
    """
    lists = [word.split("=", 1) for word in words if word.partition("=")[0] in _LISTS]
    if not lists and len(words) == 1:
        path = Path(words[0]).expanduser()
        try:
            return expand(read_yaml_strict(read_text(path)), path)
        except (OSError, UnicodeDecodeError, UntrustedError, yaml.YAMLError, RecursionError) as error:
            raise _wrong(path, str(error)) from error
    document: dict[str, list[str]] = {}
    for key, values in lists:
        document.setdefault(key, []).extend(item.strip() for item in values.split(",") if item.strip())
    if len(lists) < len(words) or not document.get("recipes"):
        what = "names a file and something else" if len(lists) < len(words) else "names no recipe"
        raise UsageError(
            f"--matrix {what}", fix="pass one file, or lists: recipes=2.8,2.13, pythons=..., variants=..."
        )
    return expand(document, Path("--matrix"))


def expand(document: Any, path: Path) -> tuple[Row, ...]:
    """Return the combinations of a document; files of recipes are relative to the folder of ``path``."""
    try:
        found = _Matrix.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise _wrong(path, f"{where}: {first['msg']}; versions are written in quotes") from error

    def place(name: str) -> str:
        is_file = os.sep in name or name.endswith((".yaml", ".yml"))
        return str(path.parent / Path(name).expanduser()) if is_file else name

    left_out = [
        (item.recipe and place(item.recipe), item.python, item.variant)
        for item in found.exclude
        if item.model_fields_set
    ]
    pythons: list[str | None] = [*found.pythons] or [None]
    variants: list[str | None] = [*found.variants] or [None]
    rows = itertools.product(map(place, found.recipes), pythons, variants)
    kept = [
        Row(*row)
        for row in dict.fromkeys(rows)
        if not any(all(word in (None, own) for word, own in zip(item, row, strict=True)) for item in left_out)
    ]
    if not kept:
        raise _wrong(path, "'exclude' leaves nothing to build")
    return tuple(kept)


def _wrong(path: Path, why: str) -> RecipeError:
    return RecipeError(
        f"the matrix {path} cannot be used",
        why=why,
        fix="correct the file; the shortest valid one is 'recipes: [\"2.8\"]'",
    )

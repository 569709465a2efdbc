"""From the program's own dataclasses to JSON documents, and back; below every other module of xpubuild."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints


def plain(value: Any) -> Any:
    """Return dataclasses, mappings, tuples and paths as the dicts, lists and strings that JSON knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def built(kind: Any, value: Any) -> Any:
    """Return a value of the type ``kind`` from what ``plain`` made of one; nothing is converted.

    ``kind`` is a dataclass, a tuple of any length, a mapping, a Literal, a union, a plain type, or Any. A
    field with a default may be missing; keys that are no field are left out.

    Raises:
        ValueError: it is of another type; the text names the field.
    """
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, dict):
        found = {}
        for item in dataclasses.fields(kind):
            if item.name in value:
                found[item.name] = _field(item.name, _hints(kind)[item.name], value[item.name])
            elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
                raise ValueError(f"its field '{item.name}' is missing")
        return kind(**found)
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(built(get_args(kind)[0], item) for item in value)
    if get_origin(kind) is Mapping and isinstance(value, dict):
        return {key: built(get_args(kind)[1], item) for key, item in value.items()}
    is_literal = get_origin(kind) is Literal and type(value) is str and value in get_args(kind)
    is_one_of = isinstance(kind, UnionType) and type(value) in get_args(kind)
    if is_literal or is_one_of or kind is Any or type(value) is kind:
        return value
    raise ValueError("it has a value of another type")


def _field(name: str, kind: Any, value: Any) -> Any:
    try:
        return built(kind, value)
    except ValueError as error:
        raise ValueError(f"its field '{name}' is not valid: {error}") from error


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)

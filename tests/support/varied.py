"""Documents made up from their schemas, several of each, so that together they have every choice.

The first document of a name has all that it can have. In the others, and among the items of a list, what is
optional is there or not, each word of an enumeration comes, numbers are small and large. Every text says
where it stands. A field that a schema gains or loses changes nothing else in a document.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping
from typing import Any

from docgen.schemas import json_schema

Path = tuple[str | int, ...]
_ITEMS = 3
_INNER_ITEMS = 2
_NUMBERS = {
    "integer": (23, 4_000_000, 0, 1, 312, 1_700_000_000),
    "number": (12.34, 75.0, 0.0, 5000.0, 0.04),
    "share": (0.95, 0.6, 0.2, 0.0),
}


class Varied:
    """One document of a schema; ``number`` says which.

    ``given`` maps paths such as ``checks[].status`` to the values to choose from instead; what has a path
    with a question mark behind it is never null.
    """

    def __init__(self, name: str, number: int, given: Mapping[str, tuple[Any, ...]]) -> None:
        self._schema = json_schema(name)
        self._given = given
        self._number = number
        self.document: Any = self._value(self._schema, (), "", number)

    def _value(self, schema: Mapping[str, Any], path: Path, named: str, turn: int) -> Any:
        if named in self._given:
            return _chosen(self._given[named], named, turn)
        schema = self._resolved(schema, named, turn)
        if "const" in schema or "enum" in schema:
            return _chosen(schema.get("enum") or [schema["const"]], named, turn)
        if schema.get("type") == "array":
            return self._list(schema, path, named, turn)
        if schema.get("type") == "object":
            return self._object(schema, path, named, turn)
        return self._leaf(schema, path, named, turn)

    def _list(self, schema: Mapping[str, Any], path: Path, named: str, turn: int) -> list[Any]:
        if "prefixItems" in schema:
            fixed = enumerate(schema["prefixItems"])
            return [self._value(item, (*path, at), f"{named}[{at}]", turn) for at, item in fixed]
        # Outer lists are longer, those of objects long enough for every word.
        most = _INNER_ITEMS if any(isinstance(key, int) for key in path) else _ITEMS
        count = _chosen((most, 0, 1), named, turn)
        if turn == 0 and most == _ITEMS and "$ref" in schema["items"]:
            count = 2 * most
        return [self._value(schema["items"], (*path, at), f"{named}[]", turn + at) for at in range(count)]

    def _object(self, schema: Mapping[str, Any], path: Path, named: str, turn: int) -> dict[str, Any]:
        if "properties" in schema:
            return {
                name: self._value(item, (*path, name), f"{named}.{name}".lstrip("."), turn)
                for name, item in schema["properties"].items()
            }
        inner = schema.get("additionalProperties")
        item = inner if isinstance(inner, dict) else {}
        names = schema.get("propertyNames", {}).get("enum", ["one", "other"])
        count = _chosen(range(len(names), -1, -1), named, turn)
        return {
            name: self._value(item, (*path, name), f"{named}.*", turn + at)
            for at, name in enumerate(names[:count])
        }

    def _resolved(self, schema: Mapping[str, Any], named: str, turn: int) -> Mapping[str, Any]:
        if "$ref" in schema:
            return self._resolved(self._schema["$defs"][schema["$ref"].rpartition("/")[2]], named, turn)
        if "anyOf" in schema:
            kinds = [item for item in schema["anyOf"] if item.get("type") != "null"]
            if len(kinds) < len(schema["anyOf"]) and f"{named}?" not in self._given:
                kinds.append({"const": None})
            return self._resolved(_chosen(kinds, f"{named}?", turn), named, turn)
        return schema

    def _leaf(self, schema: Mapping[str, Any], path: Path, named: str, turn: int) -> Any:
        kind = str(schema.get("type"))
        if kind == "boolean":
            return _chosen((True, False), named, turn)
        if kind in _NUMBERS:
            number = _chosen(_NUMBERS["share" if "maximum" in schema else kind], named, turn)
            return number + (zlib.crc32(named.encode()) % 7 if number > 1 else 0)
        names = [str(key) for key in path if isinstance(key, str)][-2:]
        places = [str(key + 1) for key in path if isinstance(key, int)]
        return " ".join((".".join(names), *(["-".join(places)] if places else []), "abcd"[self._number]))


def _chosen(choices: Any, named: str, turn: int) -> Any:
    """Return one of the choices: the first at first, each once in as many turns, in no order."""
    around, at = divmod(turn, len(choices))
    first = [] if around else [0]
    rest = list(range(len(first), len(choices)))
    random.Random(f"{named} {around}").shuffle(rest)  # noqa: S311 - the same every time
    return choices[[*first, *rest][at]]

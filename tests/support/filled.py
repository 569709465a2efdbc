"""Documents made up from their schemas, no value twice; and the same with any one value changed."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from xpubuild.schema import DOCUMENTS, json_schema

Path = tuple[str | int, ...]


class Filled:
    """A document of a schema with every field filled, each list with one item.

    ``given`` maps paths such as ``checks[].status`` to the value to use instead.
    """

    def __init__(self, name: str, given: Mapping[str, Any]) -> None:
        self._schema = json_schema(DOCUMENTS[name])
        self._given = given
        self._changes: dict[Path, list[Any]] = {}
        self._count = 0
        self.document: Any = self._value(self._schema, ())

    def changed(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield (path, new value, document with it) for every value of the document."""
        for path, values in self._changes.items():
            for value in values:
                document = copy.deepcopy(self.document)
                place = document
                for key in path[:-1]:
                    place = place[key]
                place[path[-1]] = value
                yield named(path), value, document

    def _value(self, schema: Mapping[str, Any], path: Path) -> Any:
        schema = self._resolved(schema)
        if named(path) in self._given:
            return self._as_given(self._given[named(path)], schema, path)
        if schema.get("type") == "array":
            return [self._value(schema["items"], (*path, 0))]
        if "properties" in schema:
            return {name: self._value(item, (*path, name)) for name, item in schema["properties"].items()}
        if schema.get("type") == "object":
            inner = schema.get("additionalProperties")
            (name, *_) = schema.get("propertyNames", {}).get("enum", ["some"])
            return {name: self._value(inner if isinstance(inner, dict) else {}, (*path, name))}
        return self._fixed(None, schema, path)

    def _as_given(self, given: Any, schema: Mapping[str, Any], path: Path) -> Any:
        if isinstance(given, dict):
            return {name: self._as_given(item, {}, (*path, name)) for name, item in given.items()}
        if isinstance(given, list):
            return [self._as_given(item, {}, (*path, number)) for number, item in enumerate(given)]
        return None if given is None else self._fixed(given, schema, path)

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        if "$ref" in schema:
            return self._resolved(self._schema["$defs"][schema["$ref"].rpartition("/")[2]])
        if "anyOf" in schema:
            return self._resolved(next(item for item in schema["anyOf"] if item.get("type") != "null"))
        return schema

    def _fixed(self, given: Any, schema: Mapping[str, Any], path: Path) -> Any:
        """Return a value that is no list and no object, and note what it can be changed to."""
        self._count += 1
        number = self._count
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            value = schema["enum"][0] if given is None else given
            self._changes[path] = [item for item in schema["enum"] if item != value]
            return value
        kinds: dict[str, tuple[Any, Any]] = {
            "integer": (1000 * number, 2000 * number + 1),
            "number": (0.1, 0.9) if "maximum" in schema else (100.0 * number, 200.0 * number + 1),
            "boolean": (True, False),
        }
        words = f"v{number:03}-{str(path[-1])[:7]}", f"w{number:03}-{str(path[-1])[:7]}"
        value, other = kinds.get(str(schema.get("type")), words)
        if given is not None:
            changed = {bool: not given, str: words[1]}
            value, other = given, changed.get(type(given)) if type(given) in changed else given / 2
        self._changes[path] = [other]
        return value


def named(path: Path) -> str:
    """Return ``checks[].status`` for a path."""
    return re.sub(r"\.?\[", "[", ".".join("[]" if isinstance(key, int) else key for key in path))

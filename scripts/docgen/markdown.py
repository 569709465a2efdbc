"""Markdown and the wording of JSON Schema types, for the generated pages."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]


def head(title: str, source: str) -> str:
    """Return the first lines of a page; ``source`` says what it is made from."""
    note = f"Made by scripts/generate-docs.py from {source}; change that, then run: make regen"
    return f"<!-- {note} -->\n# {title}\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [
        _row(header),
        _row(["---"] * len(header)),
        *(_row([_cell(item) for item in row]) for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def prose(text: str | None) -> str:
    """Return a docstring as Markdown: dedented, double backquotes made single."""
    return re.sub(r"``(.+?)``", r"`\1`", inspect.cleandoc(text or ""))


def code(text: str) -> str:
    """Return text as inline code."""
    return f"`{text}`"


def type_text(schema: Schema) -> str:
    """Return the type of a JSON Schema in words; a reference is a link to its section on the same page."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(json.dumps(item)) for item in schema["enum"])
    options = schema.get("anyOf", schema.get("allOf"))
    if options:
        return " or ".join(dict.fromkeys(type_text(item) for item in options))
    return _plain_type(schema)


def _plain_type(schema: Schema) -> str:
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items", {})
        return f"list of {type_text(items)}" if items else "list"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"mapping to {type_text(values)}" if isinstance(values, Mapping) else "object"
    return {"string": "text", "boolean": "true or false", "null": "null"}.get(
        str(kind), str(kind or "anything")
    )


def default_text(name: str, schema: Schema, owner: Schema) -> str:
    """Return the default of a key as it is written."""
    if name in owner.get("required", ()):
        return "required"
    default = schema.get("default")
    return "" if default is None or default in ([], {}, "") else code(json.dumps(default))


def sections(schema: Schema) -> Iterable[tuple[str, Schema]]:
    """Return (name, schema) of everything a schema defines, in the order in which it is first referred to."""
    definitions: Mapping[str, Schema] = schema.get("$defs", {})
    seen: dict[str, None] = {}
    frontier = [schema]
    while frontier:
        for name in _references(frontier.pop(0).get("properties", {})):
            if name not in seen:
                seen[name] = None
                frontier.append(definitions[name])
    return [(name, definitions[name]) for name in seen]


def _references(node: Any) -> Iterable[str]:
    if isinstance(node, Mapping):
        if "$ref" in node:
            yield str(node["$ref"]).rpartition("/")[2]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)

"""Holding real JSON documents against their schemas, closed: a field the schema does not name is an error."""

from __future__ import annotations

import functools
from typing import Any

import jsonschema
from docgen.schemas import adapter, json_schema


def closed(schema: Any) -> Any:
    """Return a schema in which no object may have fields that are not named."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        result["additionalProperties"] = False
    return result


@functools.cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(closed(json_schema(name)))


def check(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the document if it is a valid ``xpubuild.<name>/1`` with no field that the schema does not name.

    Raises:
        jsonschema.ValidationError: it is not.
    """
    _validator(name).validate(document)
    adapter(name).validate_python(document)
    return document

"""The JSON Schemas of the documents, from their types.

These are TypedDicts in the package that makes the document, in a module ``*_json`` where they are many.

A document of version 1 may gain fields, so the published schemas allow fields they do not name; fields that
are there keep their meaning.
"""

from __future__ import annotations

from typing import Any, get_args

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import get_type_hints, is_typeddict

from xpubuild import errors_json
from xpubuild.artifacts import audit_report, wheel_repair
from xpubuild.cli import config, report_json
from xpubuild.doctor import report as doctor_report
from xpubuild.explain import explain_json
from xpubuild.images import make as image_json
from xpubuild.install import bisect, lock, receipt, rehearse
from xpubuild.jobs import folder as jobs_folder
from xpubuild.jobs import status as jobs_status
from xpubuild.migrate import migrate_json
from xpubuild.recipe import matrix_json, recipe_json
from xpubuild.supply import fetch_json, store_json
from xpubuild.verify import verify_json
from xpubuild.workspace import accounted, activation, clean, overview, status, upstream_tests

_MODULES = (
    bisect, doctor_report, rehearse, receipt, report_json, verify_json, audit_report, wheel_repair,
    explain_json, recipe_json, matrix_json, lock, fetch_json, store_json,
    activation, accounted, clean, overview, status, upstream_tests,
    jobs_folder, jobs_status, image_json, config, errors_json, migrate_json,
)  # fmt: skip


def _name(kind: Any) -> str:
    """Return ``plan`` for the type of ``xpubuild.plan/1``."""
    (identifier,) = get_args(get_type_hints(kind)["schema"])
    return str(identifier).removeprefix("xpubuild.").removesuffix("/1")


#: Every document, by the name in its ``schema`` field (``xpubuild.<name>/1``).
DOCUMENTS: dict[str, Any] = {
    _name(kind): kind
    for module in _MODULES
    for kind in vars(module).values()
    if is_typeddict(kind) and kind.__module__ == module.__name__ and "schema" in kind.__annotations__
}


def adapter(name: str) -> TypeAdapter[Any]:
    """Return what validates a document of that name."""
    kind = DOCUMENTS[name]
    # The strings below fields are their descriptions; parts of the document inherit this.
    kind.__pydantic_config__ = ConfigDict(use_attribute_docstrings=True)
    return TypeAdapter(kind)


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a document.

    Pydantic repeats every field's name as its title; those are left out.
    """
    schema = _without_titles(adapter(name).json_schema(mode="serialization", schema_generator=_Generator))
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"xpubuild.{name}/1"}
    return {**head, **schema}


class _Generator(GenerateJsonSchema):
    def field_is_required(self, field: Any, total: bool) -> bool:
        # ``plain`` writes every field of a dataclass, those with a default too.
        return field["type"] == "dataclass-field" or super().field_is_required(field, total)


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    # Below "properties" a key is the name of a field, and a field may be called "title".
    return {
        key: {name: _without_titles(item) for name, item in value.items()}
        if key in ("properties", "$defs")
        else _without_titles(value)
        for key, value in schema.items()
        if key != "title" or not isinstance(value, str)
    }


def file_name(name: str) -> str:
    """Return the name of a document's schema file below docs/schema."""
    return f"xpubuild.{name}.1.json"

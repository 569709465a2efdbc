"""Models of every JSON document that xpubuild prints or writes, and the JSON Schemas made from them.

A document of version 1 may gain fields, so the published schemas allow fields they do not name; fields that
are there keep their meaning. Where the program has a dataclass for a part of a document, the model names
that class, and ``documents.plain`` writes it; what is put together from several things is modelled here.
Nothing here runs when a document is written: the tests hold what is written against these models. ``unfit``
is for documents that lie in a workspace, where others may have written.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema

from xpubuild.schema import (
    audit,
    common,
    configuration,
    doctor,
    explain,
    fetch,
    image,
    jobs,
    lock,
    matrix,
    overview,
    plan,
    receipt,
    recipe,
    rehearsal,
    repair,
    report,
    store,
    verify,
    workspace,
)
from xpubuild.schema.common import Document

_MODULES = (
    doctor,
    plan,
    rehearsal,
    receipt,
    report,
    verify,
    audit,
    repair,
    explain,
    recipe,
    matrix,
    lock,
    fetch,
    workspace,
    overview,
    store,
    jobs,
    image,
    configuration,
    common,
)
#: Every document, by the name in its ``schema`` field (``xpubuild.<name>/1``).
DOCUMENTS: dict[str, type[Document]] = {
    model.document_name(): model
    for module in _MODULES
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, Document) and model is not Document
}


def unfit(name: str, document: Any) -> str:
    """Return why something read from a file is no document of that name, "" where it is one."""
    try:
        DOCUMENTS[name].model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""


def json_schema(model: type[Document]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a document.

    Pydantic repeats every field's name as its title; those are left out.
    """
    schema = _without_titles(model.model_json_schema(mode="serialization", schema_generator=_Generator))
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"xpubuild.{model.document_name()}/1",
    }
    return {**head, **schema}


class _Generator(GenerateJsonSchema):
    def field_is_required(self, field: Any, total: bool) -> bool:
        # ``plain`` writes every field of a dataclass, those with a default too.
        own = field["type"] == "dataclass-field"
        return own or super().field_is_required(field, total)


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

"""Models of every JSON document that xpubuild prints or writes, and the JSON Schemas made from them.

A document of version 1 may gain fields, so the published schemas allow fields they do not name; fields that
are there keep their meaning. Nothing here runs when a document is written: the tests hold what is written
against these models.
"""

from __future__ import annotations

from typing import Any

from xpubuild.schema.audit import AuditDocument
from xpubuild.schema.common import Document, ErrorDocument
from xpubuild.schema.doctor import DoctorChecksDocument, DoctorDocument
from xpubuild.schema.explain import ExplainDocument, ExplainSignaturesDocument
from xpubuild.schema.fetch import FetchDocument
from xpubuild.schema.lock import LockDocument, VerifyLockDocument
from xpubuild.schema.matrix import MatrixDocument
from xpubuild.schema.plan import PlanDocument
from xpubuild.schema.receipt import ReceiptDocument
from xpubuild.schema.recipe import RecipeDocument, RecipesCheckDocument, RecipesDocument
from xpubuild.schema.verify import VerifyChecksDocument, VerifyDocument
from xpubuild.schema.workspace import CleanDocument, EnvDocument, StatusDocument

#: Every document, by the name in its ``schema`` field (``xpubuild.<name>/1``).
DOCUMENTS: dict[str, type[Document]] = {
    model.document_name(): model
    for model in (
        DoctorDocument,
        DoctorChecksDocument,
        PlanDocument,
        ReceiptDocument,
        StatusDocument,
        VerifyDocument,
        VerifyChecksDocument,
        AuditDocument,
        ExplainDocument,
        ExplainSignaturesDocument,
        RecipeDocument,
        RecipesDocument,
        RecipesCheckDocument,
        MatrixDocument,
        LockDocument,
        VerifyLockDocument,
        FetchDocument,
        EnvDocument,
        CleanDocument,
        ErrorDocument,
    )
}


def json_schema(model: type[Document]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a document.

    Pydantic repeats every field's name as its title; those are left out.
    """
    schema = _without_titles(model.model_json_schema(by_alias=True))
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"xpubuild.{model.document_name()}/1",
    }
    return {**head, **schema}


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

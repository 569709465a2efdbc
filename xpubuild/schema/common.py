"""What all documents share, and the error object."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    """Base of all parts of documents."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, use_attribute_docstrings=True)


class Document(Part):
    """Base of all documents: each names its own schema and version."""

    schema_: str = Field(alias="schema", description="Name and version of the document.")

    @classmethod
    def document_name(cls) -> str:
        """Return ``plan`` for ``xpubuild.plan/1``."""
        (identifier,) = get_args(cls.model_fields["schema_"].annotation)
        return str(identifier).removeprefix("xpubuild.").removesuffix("/1")


class Error(Part):
    """Why a command failed, as its message on stderr says it."""

    code: str
    """Name of the kind of failure; docs/reference/exit-codes.md lists them."""
    exit_code: int
    """Exit code."""
    what: str
    """What happened."""
    why: str
    """Why; empty where nothing more is known."""
    fix: str
    """What to do about it."""
    commands: list[str]
    """Commands to run next."""
    log: str | None
    """The log of the command that failed."""
    evidence: dict[str, Any]
    """What the finding rests on; its keys depend on the code."""
    explanation: dict[str, Any] | None = None
    """An xpubuild.explain/1 document about the log of the failed command."""


class ErrorDocument(Document):
    """Printed with --json, instead of the command's own document, when a command fails."""

    schema_: Literal["xpubuild.error/1"] = Field(alias="schema", description="Name and version.")
    status: Literal["error"]
    error: Error

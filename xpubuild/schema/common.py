"""What all documents share, and the error object."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    """Base of all parts of documents."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)


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

    code: str = Field(description="Name of the kind of failure; docs/reference/exit-codes.md lists them.")
    exit_code: int = Field(description="Exit status that goes with the code.")
    what: str = Field(description="What happened.")
    why: str = Field(description="Why; empty where nothing more is known.")
    fix: str = Field(description="What to do about it.")
    commands: list[str] = Field(description="Commands to type next.")
    log: str | None = Field(description="The log of the command that failed.")
    evidence: dict[str, Any] = Field(description="What the finding rests on; its keys depend on the code.")
    explanation: dict[str, Any] | None = Field(
        default=None, description="An xpubuild.explain/1 document about the log of the failed command."
    )


class ErrorDocument(Document):
    """Printed with --json, instead of the command's own document, when a command fails."""

    schema_: Literal["xpubuild.error/1"] = Field(alias="schema", description="Name and version.")
    status: Literal["error"]
    error: Error

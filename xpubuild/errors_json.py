"""The error in JSON documents."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict


class Error(TypedDict):
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
    """The facts behind the error; its keys depend on the code."""
    explanation: NotRequired[dict[str, Any] | None]
    """An xpubuild.explain/1 document about the log of the failed command."""


class ErrorDocument(TypedDict):
    """Printed with --json, instead of the command's own document, when a command fails."""

    schema: Literal["xpubuild.error/1"]
    """Name and version."""
    status: Literal["error"]
    error: Error

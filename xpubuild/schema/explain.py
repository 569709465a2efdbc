"""``xpubuild explain --json`` and ``xpubuild explain --list --json``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xpubuild.schema.common import Document, Part


class FirstErrorLine(Part):
    """The first error of the log: not a warning, and not the report of somebody else's error."""

    line: int = Field(description="Counted from 1.")
    text: str = Field(description="Without colours, timestamps and labels of CI systems.")
    kind: str = Field(description="Who speaks: compiler, linker, cmake, ninja, pip, git, python, memory, ...")
    command: str | None = Field(description="The command that ninja ran, where ninja reports the failure.")
    context: list[str] = Field(description="The lines round it, in order.")


class ExplainFinding(Part):
    """A likely cause."""

    id: str = Field(description="Name of the signature.")
    family: str = Field(description="Group of failures with one mechanism.")
    title: str
    line: int = Field(description="Counted from 1.")
    excerpt: str = Field(description="What was found there.")
    cause: str
    fix: str
    next_command: str = Field(description="What to type next on this distribution.")
    confidence: float = Field(description="Between 0 and 1.", ge=0, le=1)
    sources: list[str] = Field(description="Where it was learned.")
    releases: str = Field(description="Releases it concerns; empty where it concerns all.")
    probes: list[str] = Field(description="Checks of doctor that confirm or refute it.")


class ExplainDocument(Document):
    """What a log says; a log without findings is a valid answer."""

    schema_: Literal["xpubuild.explain/1"] = Field(alias="schema", description="Name and version.")
    first_error: FirstErrorLine | None
    findings: list[ExplainFinding] = Field(description="Best first.")
    search_terms: list[str] = Field(description="For an error that no signature knows; else empty.")
    lines: int = Field(description="How many lines the log has.")


class ListedSignature(Part):
    """A failure that explain knows."""

    id: str
    family: str
    title: str
    fatal: bool = Field(description="Whether install stops a build in which it shows.")
    releases: str
    sources: list[str]


class ExplainSignaturesDocument(Document):
    """Every failure that explain knows."""

    schema_: Literal["xpubuild.explain-signatures/1"] = Field(alias="schema", description="Name and version.")
    signatures: list[ListedSignature] = Field(description="By family and id.")

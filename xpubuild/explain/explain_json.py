"""``xpubuild explain --json`` and ``xpubuild explain --list --json``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from xpubuild.explain.firsterror import FirstError
from xpubuild.explain.rank import LikelyCause


class ExplainDocument(TypedDict):
    """What a log says; a log without findings is a valid answer."""

    schema: Literal["xpubuild.explain/1"]
    """Name and version."""
    first_error: FirstError | None
    findings: list[LikelyCause]
    """Best first."""
    search_terms: list[str]
    """For an error that no signature knows; else empty."""
    lines: int
    """How many lines the log has."""


class ListedSignature(TypedDict):
    """A failure that explain knows."""

    id: str
    family: str
    title: str
    fatal: bool
    """Whether install stops a build in which it shows."""
    releases: str
    sources: list[str]


class ExplainSignaturesDocument(TypedDict):
    """Every failure that explain knows."""

    schema: Literal["xpubuild.explain-signatures/1"]
    """Name and version."""
    signatures: list[ListedSignature]
    """By family and id."""

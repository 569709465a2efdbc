"""``xpubuild explain --json`` and ``xpubuild explain --list --json``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from xpubuild.explain.document import LikelyCause
from xpubuild.explain.forms import FirstError
from xpubuild.explain.rules import Sure


class ExplainDocument(TypedDict):
    """What a log says; a log without findings is a valid answer."""

    schema: Literal["xpubuild.explain/1"]
    """Name and version."""
    first_error: FirstError | None
    findings: list[LikelyCause]
    """Best first."""
    search_terms: list[str]
    """For an error whose cause is not known; else empty."""
    lines: int
    """How many lines the log has."""


class ListedRule(TypedDict):
    """A failure that explain knows."""

    id: str
    family: str
    title: str
    messages: list[str]
    """What the programs print; {name} is a word that varies, {name#} a number, {name*} any text."""
    confidence: Sure
    """The highest confidence that the rule can have."""
    fatal: bool
    """Whether install stops a build in which it shows."""
    sources: list[str]
    """Where the messages are written, and threads in which they were seen."""


class ExplainRulesDocument(TypedDict):
    """Every failure that explain knows."""

    schema: Literal["xpubuild.explain-rules/1"]
    """Name and version."""
    rules: list[ListedRule]
    """By family and id."""

"""The models of a signature file: what a known failure looks like, why it happens, what to do about it."""

from __future__ import annotations

import re
import typing
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from xpubuild.distribution import UNKNOWN_SYSTEM, Need, System, family_of, install_line

#: How many lines around a line a condition may ask for; the scanner keeps as many.
MAX_DISTANCE = 40


def _valid_pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if re.search(r"(?<!\\)[*+](?!\?*\})", re.sub(r"\[(?:\\.|[^\]\\])*\]|\\.", "x", text)):
        raise ValueError("'*' and '+' are unbounded: use {0,80} or {1,80}")
    return text


def _valid_literal(text: str) -> str:
    if text != text.lower() or len(text) < 4 or not re.fullmatch(r"[\x20-\x7e]{4,80}", text):  # noqa: PLR2004
        raise ValueError("a literal is 4 to 80 ASCII characters in lower case")
    if re.search(r"['`\"]|  ", text):
        raise ValueError(
            "a literal has no quotes and no double spaces: they differ between tools and locales"
        )
    return text


#: Codes of errors (``xpubuild.errors``) that a fatal signature can end a build with.
Code = typing.Literal["no-space", "no-xpu"]
Pattern = Annotated[str, AfterValidator(_valid_pattern)]
Literal = Annotated[str, AfterValidator(_valid_literal)]


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Nearby(_Data):
    """A line near the one that matched: up to ``within`` lines before or after it."""

    pattern: Pattern
    within: int = Field(default=12, ge=1, le=MAX_DISTANCE)


class Unless(_Data):
    """What must not be there: in the line itself, or near it."""

    line: Pattern | None = None
    before: Nearby | None = None
    after: Nearby | None = None


class Matcher(_Data):
    """One way a failure shows in a log.

    ``find`` are literals of which one is in every line that can match; they are looked for before any
    pattern is tried; ``beside`` are commoner ones, of which one is in these lines too: they cost less.
    ``line`` is searched without regard to case in the line with its prefixes, colours and
    surplus blanks removed and all quotes written as ', and in a CMake message joined to one line. ``needs``
    and ``unless_fact`` name facts of the whole log.
    """

    find: tuple[Literal, ...] = Field(min_length=1)
    line: Pattern
    beside: tuple[Literal, ...] = ()
    before: tuple[Nearby, ...] = ()
    after: tuple[Nearby, ...] = ()
    unless: Unless | None = None
    needs: tuple[str, ...] = ()
    unless_fact: tuple[str, ...] = ()
    confidence: float = Field(default=0.9, gt=0, le=1)


class Probe(_Data):
    """A check of ``xpubuild.doctor/1`` and what its result says about this cause."""

    check: str
    supports: tuple[str, ...] = ("fail",)


class Signature(_Data):
    """A known failure. ``next`` is one command, or one per distribution with a ``default``.

    Its ``install`` is a need of ``distributions.yaml`` in place of a command per distribution; ``default`` is
    taken where no package brings it.

    ``fatal`` ones stop a build in which they show; ``error`` is the code of the error it then ends with.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$")
    family: str = ""
    title: str
    match: tuple[Matcher, ...] = Field(min_length=1)
    cause: str
    fix: str
    next: str | dict[str, str]
    sources: tuple[str, ...] = Field(min_length=1)
    probes: tuple[Probe, ...] = ()
    releases: str = ""
    fatal: bool = False
    error: Code | None = None
    supersedes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Signature:
        if isinstance(self.next, dict) and "default" not in self.next:
            raise ValueError(f"{self.id}: 'next' has no default")
        if isinstance(self.next, dict) and self.next.get("install", "driver") not in typing.get_args(Need):
            raise ValueError(f"{self.id}: 'install' is none of {', '.join(typing.get_args(Need))}")
        if self.fatal and any(m.after or (m.unless and m.unless.after) for m in self.match):
            raise ValueError(f"{self.id}: a fatal signature cannot depend on later lines")
        if self.fatal != (self.error is not None):
            raise ValueError(f"{self.id}: a fatal signature needs an 'error', any other must not have one")
        if any(not url.startswith("https://") for url in self.sources):
            raise ValueError(f"{self.id}: a source is an https:// address")
        return self

    def next_command(self, system: System = UNKNOWN_SYSTEM) -> str:
        """Return the command for a system: of its ID, of what it is like, of its family, else the default."""
        if isinstance(self.next, str):
            return self.next
        if "install" in self.next:
            need: Need = self.next["install"]  # type: ignore[assignment]  # the validator has compared it
            return install_line(need, system) or self.next["default"]
        known = (*system.names, family_of(system.names))
        return next((self.next[name] for name in known if name in self.next), self.next["default"])


class Fact(_Data):
    """A fact that the log shows about the machine or the options of the build."""

    name: str
    find: tuple[Literal, ...] = Field(min_length=1)
    line: Pattern


class SignatureFile(_Data):
    """One file of signatures; ``family`` is the default of its entries."""

    family: str = ""
    signatures: tuple[Signature, ...] = ()
    facts: tuple[Fact, ...] = ()

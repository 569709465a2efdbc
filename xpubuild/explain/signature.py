"""The models of a signature file: what a known failure looks like, why it happens, what to do about it."""

from __future__ import annotations

import typing
from collections.abc import Mapping

from pydantic import Field, model_validator

from xpubuild.distribution import UNKNOWN_SYSTEM, Need, System, family_of, install_line
from xpubuild.explain.entities import Data, Index, Literal, Lookup, Pattern, Row

#: How many lines around a line a condition may ask for; the scanner keeps as many.
MAX_DISTANCE = 40


#: Codes of errors (``xpubuild.errors``) that a fatal signature can end a build with.
Code = typing.Literal["no-space", "no-xpu"]


class Nearby(Data):
    """A line near the one that matched: up to ``within`` lines before or after it."""

    pattern: Pattern
    within: int = Field(default=12, ge=1, le=MAX_DISTANCE)


class Unless(Data):
    """What must not be there: in the line itself, or near it."""

    line: Pattern | None = None
    before: Nearby | None = None
    after: Nearby | None = None


class Matcher(Data):
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
    #: A kind's matcher sees no warnings: they end nothing. This one does.
    warnings: bool = False


class Probe(Data):
    """A check of ``xpubuild.doctor/1`` and what its result says about this cause."""

    check: str
    supports: tuple[str, ...] = ("fail",)


class Signature(Data):
    """A known failure. ``next`` is one command, or one per distribution with a ``default``.

    Its ``install`` is a need of ``distributions.yaml`` in place of a command per distribution; ``default`` is
    taken where no package brings it.

    ``fatal`` ones stop a build in which they show; ``error`` is the code of the error it then ends with.

    A *kind* is a signature of a shape that many failures have. Its patterns capture entities as named groups,
    its texts have a ``{place}`` for each, and ``lookup`` names the table that knows more about them. What
    stands between ``[[`` and ``]]`` is left out where one of its places is not known. ``also`` names lines
    near it whose groups are entities that the line itself does not have. It gives way to a signature on the
    same line.
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
    lookup: tuple[Lookup, ...] = ()
    also: tuple[Nearby, ...] = ()
    general: bool = False
    #: The message is known from the source that prints it, for this cause alone: what else a log with it has
    #: in common with known failures says nothing.
    certain: bool = False

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

    def texts(self) -> tuple[str, ...]:
        """Return all texts that are shown, with their places; those of the tables too."""
        rows = [row for lookup in self.lookup for row in lookup.rows]
        told = [self.title, self.cause, self.fix, *(text for row in rows for text in row.texts())]
        for item in (self.next, *(row.next for row in rows if row.next)):
            told += item.values() if isinstance(item, dict) else [item]
        return tuple(told)

    def next_command(self, system: System = UNKNOWN_SYSTEM) -> str:
        """Return the command for a system: of its ID, of what it is like, of its family, else the default."""
        if not isinstance(self.next, str) and "install" in self.next:
            need: Need = self.next["install"]  # type: ignore[assignment]  # the validator has compared it
            return install_line(need, system) or self.next["default"]
        return for_system(self.next, system)


def for_system(commands: str | Mapping[str, str], system: System) -> str:
    """Return the command for a system: of its ID, of what it is like, of its family, else the default."""
    if isinstance(commands, str):
        return commands
    names = (*system.names, family_of(system.names) or "")
    return next((commands[name] for name in names if name in commands), commands.get("default", ""))


class Fact(Data):
    """A fact that the log shows about the machine or the options of the build."""

    name: str
    find: tuple[Literal, ...] = Field(min_length=1)
    line: Pattern


class SignatureFile(Data):
    """One file of signatures; ``family`` is the default of its entries."""

    family: str = ""
    signatures: tuple[Signature, ...] = ()
    kinds: tuple[Signature, ...] = ()
    tables: dict[str, tuple[Row, ...]] = Field(default_factory=dict)
    indices: dict[str, Index] = Field(default_factory=dict)
    #: Entity -> lines that name it for all kinds whose texts have a place for it, the likeliest first.
    around: dict[str, tuple[Nearby, ...]] = Field(default_factory=dict)
    facts: tuple[Fact, ...] = ()

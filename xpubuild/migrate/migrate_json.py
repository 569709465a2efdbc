"""``xpubuild migrate --json``, and the baseline."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class MigrateFinding(TypedDict):
    """A place that was left as it is."""

    path: str
    line: int
    """In the file as it was."""
    id: str
    level: Literal["finding", "note"]
    """A note needs no change: it has no effect on XPU."""
    text: str
    """The line."""
    reason: str
    alternative: str
    source: str
    """A page about it; may be empty."""


class MigrateFile(TypedDict):
    """A file with changes, or one that does not parse."""

    path: str
    state: Literal["changed", "not parsed"]
    edits: int
    diff: str


class MigrateDocument(TypedDict):
    """What was rewritten, and what is left."""

    schema: Literal["xpubuild.migrate/1"]
    """Name and version."""
    to: Literal["accelerator", "xpu"]
    torch: str
    """The release whose calls were written."""
    written: bool
    """Whether the files have been changed."""
    read: int
    """How many files were read."""
    files: list[MigrateFile]
    findings: list[MigrateFinding]
    """Without those of the baseline."""
    known: int
    """How many are in the baseline."""


class MigrateBaseline(TypedDict):
    """The findings that ``--baseline`` accepts."""

    schema: Literal["xpubuild.migrate-baseline/1"]
    """Name and version."""
    findings: list[str]
    """PATH: ID: TEXT of each; the number of the line is not part of it."""

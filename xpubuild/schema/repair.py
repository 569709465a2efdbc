"""``xpubuild wheel repair --json``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xpubuild.artifacts.repair_model import Expected, Pin
from xpubuild.schema.audit import AuditedWheel
from xpubuild.schema.common import Document, Part


class BundledLibrary(Part):
    """A library that was copied into the wheel."""

    library: str
    """The name that it had."""
    member: str
    """Its path in the wheel."""
    from_: str = Field(alias="from")
    """The installed distribution that it comes from, or the build machine."""
    sha256: str
    """Of the file before its RPATH was changed."""


class RepairedWheel(Part):
    """What was done to one wheel. All but paths and audits is also in the wheel, as xpubuild-repair.json."""

    wheel: str
    """The repaired wheel."""
    source: str
    """The wheel that it was made from."""
    source_sha256: str
    kind: Literal["portable", "site"]
    runtime: Literal["pinned", "bundled", "site"]
    """How the libraries of Intel's runtime are found."""
    platform: str
    """The platform tag, from the symbol versions and libraries that are needed."""
    symbol_versions: dict[str, str]
    """The newest version of each kind that is needed from the system, such as GLIBC: 2.34."""
    pins: list[Pin]
    bundled: list[BundledLibrary]
    expected: Expected
    rpath: dict[str, list[str]]
    """Each shared object that was changed, with its new RPATH."""
    xpubuild: str
    before: AuditedWheel
    after: AuditedWheel


class RepairDocument(Document):
    """What was done to some wheels."""

    schema_: Literal["xpubuild.wheel-repair/1"] = Field(alias="schema", description="Name and version.")
    wheels: list[RepairedWheel]

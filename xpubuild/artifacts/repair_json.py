"""``xpubuild check --repair --json``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from xpubuild.artifacts.audit_json import AuditedWheel
from xpubuild.artifacts.repair_model import Expected, Pin

#: A library that was copied into the wheel: the name that it had; its path in the wheel; the installed
#: distribution that it comes from, or the build machine; sha256 of the file before its RPATH was changed.
BundledLibrary = TypedDict("BundledLibrary", {"library": str, "member": str, "from": str, "sha256": str})


class RepairedWheel(TypedDict):
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


class RepairDocument(TypedDict):
    """What was done to some wheels."""

    schema: Literal["xpubuild.wheel-repair/1"]
    """Name and version."""
    wheels: list[RepairedWheel]

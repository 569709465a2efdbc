"""``xpubuild lock --json``, and ``check --json`` of a lock."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from xpubuild.install.lock_compare import Difference


class OpenWheel(TypedDict):
    """A prebuilt wheel without a known hash."""

    component: str
    dist: str
    version: str


class LockDocument(TypedDict):
    """What lock wrote, and how it differs from the file that was there before."""

    schema: Literal["xpubuild.written-lock/1"]
    """Name and version."""
    recipe: str
    file: str | None
    """Where the lock was written; null for standard output."""
    lock: str
    """Digest of every input but the machine."""
    machine: str
    """Digest of the machine's section."""
    repositories: int
    """Repositories in it, submodules and configure-time ones included."""
    archives: int
    """Archives in it that builds would download themselves."""
    pins: int
    """Python requirements in it."""
    open: list[OpenWheel]
    """Wheels without a hash."""
    changed: bool
    """Whether the file was not there, or is another one now."""
    differences: list[Difference]
    """To the lock that was there before."""


class VerifyLockDocument(TypedDict):
    """A lock compared with its recipe, the sources and this machine."""

    schema: Literal["xpubuild.verify-lock/1"]
    """Name and version."""
    status: Literal["ok", "differs"]
    recipe: str
    lock: str
    """Digest of every input but the machine."""
    policy: Literal["exact", "compatible", "ignore"]
    """How the machine was compared."""
    differences: list[Difference]
    open: list[str]
    """Components that are wheels without a hash."""

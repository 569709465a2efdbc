"""``xpubuild lock|verify-lock --json``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from xpubuild.schema.common import Document, Part


class LockDifference(Part):
    """One thing that is not what a lock says."""

    path: str = Field(description="Name of the thing, such as repositories.torch.submodules.NAME.commit.")
    old: Any = Field(description="What the lock has; null where it has nothing.")
    new: Any = Field(description="What there is now; null where there is nothing.")
    text: str = Field(description="The difference as a sentence.")


class OpenWheel(Part):
    """A prebuilt wheel of which nobody has written a hash down."""

    component: str
    dist: str
    version: str


class LockDocument(Document):
    """What lock wrote, and how it differs from the file that was there before."""

    schema_: Literal["xpubuild.written-lock/1"] = Field(alias="schema", description="Name and version.")
    recipe: str
    file: str | None = Field(description="Where the lock was written; null for standard output.")
    lock: str = Field(description="Digest of every input but the machine.")
    machine: str = Field(description="Digest of the machine's section.")
    repositories: int = Field(description="Repositories in it, submodules and configure-time ones included.")
    pins: int = Field(description="Python requirements in it.")
    open: list[OpenWheel] = Field(description="Wheels without a hash.")
    changed: bool = Field(description="Whether the file was not there, or is another one now.")
    differences: list[LockDifference] = Field(description="To the lock that was there before.")


class VerifyLockDocument(Document):
    """A lock held against recipe, sources and this machine."""

    schema_: Literal["xpubuild.verify-lock/1"] = Field(alias="schema", description="Name and version.")
    status: Literal["ok", "differs"]
    recipe: str
    lock: str = Field(description="Digest of every input but the machine.")
    policy: Literal["exact", "compatible", "ignore"] = Field(description="How the machine was compared.")
    differences: list[LockDifference]
    open: list[str] = Field(description="Components that are wheels without a hash.")

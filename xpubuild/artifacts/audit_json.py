"""``xpubuild check --json``, and the audits inside a receipt."""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from xpubuild.artifacts.audit_report import AuditPolicy, Finding


class AbiCounts(TypedDict):
    """Symbols of an object that speak for one or the other C++ ABI of libstdc++."""

    verdict: Literal[0, 1] | None
    """The ABI; null where no symbol tells."""
    confidence: Literal["high", "low", "none"]
    mixed: bool
    """Whether the minority is too large to be a stray symbol."""
    new: int
    old: int
    new_examples: list[str]
    old_examples: list[str]


class AuditedDeviceCode(TypedDict):
    """The SYCL code of an object, as its device images are registered."""

    images: int
    kernels: int
    spirv: int
    """Kernels as SPIR-V, which the driver compiles when they are first used."""
    native: dict[str, int]
    """GPU -> kernels that were compiled for it ahead of time."""
    compressed: int
    """Images packed with zstd."""


class AuditedObject(TypedDict):
    """One shared object of a wheel."""

    path: str
    """Path inside the wheel."""
    abi: Literal[0, 1] | None
    abi_counts: AbiCounts
    abi_from: str
    """The symbol table that the counts come from."""
    soname: str
    needed: list[str]
    rpath: list[str]
    found: dict[str, str]
    """Needed library -> the file that was found for it."""
    missing: list[str]
    allowed: list[str]
    """Missing libraries that the policy allows."""
    strings: list[str]
    """Which of the required strings it holds."""
    device_code: NotRequired[AuditedDeviceCode | None]
    """Null without device images; missing in documents of earlier versions."""


class AuditedWheel(TypedDict):
    """What an audit found out about one wheel."""

    wheel: str
    status: Literal["ok", "warn", "fail"]
    name: str
    version: str
    sha256: str
    size: int
    """Bytes."""
    content_digest: str
    """Digest of the content alone, without archive times and order."""
    abi: Literal[0, 1] | None
    """The C++ ABI of all objects together."""
    policy: AuditPolicy
    objects: list[AuditedObject]
    findings: list[Finding]


class AuditDocument(TypedDict):
    """What the audit of some wheels found."""

    schema: Literal["xpubuild.audit/1"]
    """Name and version."""
    wheels: list[AuditedWheel]

"""The policy of an audit, and its report: of ``xpubuild check WHEEL --json`` and in receipts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from xpubuild.artifacts.abi import AbiCounts
from xpubuild.documents import plain
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml

Severity = Literal["error", "warning"]
_MOST_SHOWN = 5

#: What to do about each kind of finding.
_FIXES = Path(__file__).with_name("audit_fixes.yaml")


@frozen
class AuditPolicy:
    """What a wheel must be.

    ``forbid_needed`` and ``allow_missing`` are patterns (``libmkl_*``) of library names, the first also for
    one kind of objects alone (``libtorch_cpu.so:libmkl_*``); drivers are always allowed to be missing. If any
    ``require_strings`` are given, at least one of them must be inside an object of the wheel.
    ``device_targets``, if given, are AOT targets (``pvc``) that every kernel must have native code for; an
    empty list wants kernels alone.
    ``elsewhere`` is how bad it is that a wheel works here and may not on another machine.
    """

    cxx11_abi: int | None = None
    forbid_needed: tuple[str, ...] = ()
    allow_missing: tuple[str, ...] = ()
    require_strings: tuple[str, ...] = ()
    absolute_rpath: Severity = "warning"
    unresolved_symbols: Severity = "error"
    device_targets: tuple[str, ...] | None = None
    elsewhere: Severity = "warning"

    def key(self) -> dict[str, Any]:
        """Return what decides a proof; what was added after builds were proved counts where it is used."""
        values = plain(self)
        return {name: values[name] for name in values if name != "elsewhere" or self.elsewhere != "warning"}


@frozen
class Finding:
    """One thing that is wrong; ``object`` is the file in the wheel, ``symbol_or_path`` what it is about."""

    severity: Severity
    kind: str
    object: str
    symbol_or_path: str
    message: str


#: What a check yields.
Findings = Iterator[Finding]


@frozen
class AuditedDeviceCode:
    """The SYCL code of an object, as its device images are registered."""

    images: int
    kernels: int
    spirv: int
    """Kernels as SPIR-V, which the driver compiles when they are first used."""
    native: Mapping[str, int]
    """GPU -> kernels that were compiled for it ahead of time."""
    compressed: int
    """Images packed with zstd."""


@frozen
class AuditedObject:
    """One shared object of a wheel."""

    path: str
    """Path inside the wheel."""
    abi: Literal[0, 1] | None
    abi_counts: AbiCounts
    abi_from: str
    """The symbol table that the counts come from."""
    soname: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    found: Mapping[str, str]
    """Needed library -> the file that was found for it."""
    missing: tuple[str, ...]
    allowed: tuple[str, ...]
    """Missing libraries that the policy allows."""
    strings: tuple[str, ...]
    """Which of the required strings it holds."""
    device_code: AuditedDeviceCode | None
    """Null without device images."""


@frozen
class AuditedWheel:
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
    objects: tuple[AuditedObject, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make the audit fail."""
        return tuple(finding for finding in self.findings if finding.severity == "error")


class AuditDocument(TypedDict):
    """What the audit of some wheels found."""

    schema: Literal["xpubuild.audit/1"]
    """Name and version."""
    wheels: list[AuditedWheel]


def raise_for_findings(report: AuditedWheel) -> None:
    """Do nothing for a wheel that passed; warnings pass.

    Raises:
        AuditError: the audit found an error. It names the file and the symbol or path.
    """
    raise_for(Path(report.wheel).name, report.errors, report.policy)


def raise_for(label: str, errors: Sequence[Finding], policy: AuditPolicy) -> None:
    """Raise for the first of some errors and list the others; nothing for none.

    Raises:
        AuditError: there is an error.
    """
    if not errors:
        return
    shown = [finding.message for finding in errors[:_MOST_SHOWN]]
    more = len(errors) - len(shown)
    kinds = dict.fromkeys(finding.kind for finding in errors)
    if "abi" in kinds:
        # Symbols that nobody has are then what follows from the wrong ABI, not another fault.
        kinds.pop("unresolved-symbol", None)
    known = read_yaml(_FIXES.read_text("utf-8"))
    fixes = [known[kind].format(abi=policy.cxx11_abi) for kind in kinds]
    raise AuditError(
        f"{label} failed its audit: {errors[0].object}: {errors[0].symbol_or_path}",
        why="; ".join(shown) + (f"; and {more} more" if more else ""),
        fix="; ".join(dict.fromkeys(fixes)),
        evidence={"wheel": label, "findings": plain(tuple(errors))},
    )

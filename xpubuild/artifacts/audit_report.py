"""The policy of an audit, and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from xpubuild.artifacts.abi import AbiCount
from xpubuild.documents import plain
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen

Severity = Literal["error", "warning"]
_MOST_SHOWN = 5

#: What to do about each kind of finding. ``{abi}`` is the ABI that was asked for.
_FIXES: Mapping[str, str] = {
    "changed": "the wheel was changed after packing: build or download it again",
    "record": "the wheel was changed after packing: build or download it again",
    "damaged": "build or download the wheel again; the cause may be a full disk or an interrupted download",
    "duplicate": "do not use this wheel; build it again with an unmodified build backend",
    "bomb": "do not unpack or install this wheel; find out who made it",
    "unsafe-name": "do not install this wheel; find out who made it",
    "metadata": "build the wheel again; wheels must not be renamed or repacked by hand",
    "tags": "build the wheel again on the platform it is for; wheels must not be renamed",
    "abi": "rebuild with --cxx11-abi {abi}, and check that no -D_GLIBCXX_USE_CXX11_ABI is left in CXXFLAGS",
    "missing-library": (
        "add the library to the wheel, install the package that has it, pass its folder with --search, or "
        "list it under audit.allow_missing if the target machine provides it"
    ),
    "missing-version": "build with the compiler of this system or an older one, or install a newer library",
    "unresolved-symbol": "the wheel was built against other versions of its libraries: build it again against"
    " those that are installed",
    "forbidden-library": "link it statically; clear the component's build folder, so that CMake looks again",
    "missing-string": "the static library was not linked: check in the configure log what CMake found",
    "rpath": "build with CMAKE_BUILD_WITH_INSTALL_RPATH=ON and CMAKE_INSTALL_RPATH below $ORIGIN",
    "not-on-rpath": "build with an RPATH that starts with $ORIGIN and points to the library",
    "no-device-code": "find in the build log why its SYCL sources were not compiled, and build it again",
    "device-code": "build it again: the linker dropped its device images or broke them",
    "aot": "build it with --arch for the GPUs that it is for, in an empty build folder: without native code "
    "the driver compiles each kernel when it is first used",
    "aot-unknown": "name the GPU as in ocloc compile --help, such as pvc",
    "two-sycl": "build everything with one oneAPI release",
    "outside": "install the wheel, and the distributions that it requires, together in one virtual or conda "
    "environment: pip install --target leaves out the folders beside site-packages",
    "builder-path": "build with relative paths, or with -ffile-prefix-map for text in shared objects",
}


@frozen
class AuditPolicy:
    """What a wheel must be.

    ``forbid_needed`` and ``allow_missing`` are patterns (``libmkl_*``) of library names, the first also for
    one kind of objects alone (``libtorch_cpu.so:libmkl_*``); drivers are always allowed to be missing. If any
    ``require_strings`` are given, at least one of them must be inside an object of the wheel.
    ``allowed_rpaths`` are folders that an absolute RPATH may lead into. ``device_targets``, if given, are AOT
    targets (``pvc``) that every kernel must have native code for; an empty list wants kernels alone.
    """

    cxx11_abi: int | None = None
    forbid_needed: tuple[str, ...] = ()
    allow_missing: tuple[str, ...] = ()
    require_strings: tuple[str, ...] = ()
    allowed_rpaths: tuple[str, ...] = ()
    absolute_rpath: Severity = "warning"
    unresolved_symbols: Severity = "error"
    device_targets: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the policy for fingerprints and reports."""
        everything = dict(plain(self))
        # What is not asked of a wheel is not in its fingerprint, so that nothing is built again for it.
        return everything if self.device_targets is not None else _without(everything, "device_targets")


@frozen
class Finding:
    """One thing that is wrong; ``object`` is the file in the wheel, ``symbol_or_path`` what it is about."""

    severity: Severity
    kind: str
    object: str
    symbol_or_path: str
    message: str


@frozen
class DeviceCode:
    """The device code of one object: numbers of images and kernels.

    ``spirv`` are kernels that the driver can compile when they are first used, ``native`` those that are
    compiled already, by GPU.
    """

    images: int
    kernels: int
    spirv: int
    native: Mapping[str, int]
    compressed: int


@frozen
class ObjectReport:
    """One shared object. ``abi_from`` names the symbol table that the counts come from.

    ``device_code`` is that of a SYCL compiler, None without any.
    """

    path: str
    abi: AbiCount
    abi_from: str
    soname: str
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    found: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    device_code: DeviceCode | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the object for reports."""
        return {**plain(self), "abi": self.abi.verdict, "abi_counts": self.abi.to_json()}


@frozen
class AuditReport:
    """The result of one audit. ``abi`` is the verdict of all objects together, ``size`` is in bytes."""

    wheel: str
    name: str
    version: str
    sha256: str
    size: int
    content_digest: str
    abi: int | None
    policy: AuditPolicy
    objects: tuple[ObjectReport, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make the audit fail."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def status(self) -> str:
        """``fail``, ``warn`` or ``ok``."""
        return "fail" if self.errors else ("warn" if self.findings else "ok")

    def with_findings(self, more: Sequence[Finding]) -> AuditReport:
        """Return the report with more findings."""
        return replace(self, findings=(*self.findings, *more))

    def to_json(self) -> dict[str, Any]:
        """Return the report for the receipt and ``audit --json``."""
        objects = [item.to_json() for item in self.objects]
        return {**plain(self), "status": self.status, "objects": objects}


def _without(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}


def raise_for_findings(report: AuditReport) -> None:
    """Do nothing for a wheel that passed; warnings pass.

    Raises:
        AuditError: the audit found an error. It names the file and the symbol or path.
    """
    raise_for(Path(report.wheel).name, report.errors, report.policy)


def raise_for(label: str, errors: Sequence[Finding], policy: AuditPolicy) -> None:
    """Raise for the first of some errors and tell of the others; nothing for none.

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
    fixes = [_FIXES[kind].format(abi=policy.cxx11_abi) for kind in kinds]
    raise AuditError(
        f"{label} failed its audit: {errors[0].object}: {errors[0].symbol_or_path}",
        why="; ".join(shown) + (f"; and {more} more" if more else ""),
        fix="; ".join(dict.fromkeys(fixes)),
        evidence={"wheel": label, "findings": plain(tuple(errors))},
    )

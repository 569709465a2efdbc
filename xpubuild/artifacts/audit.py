"""The audit of a wheel: checks its files for C++ ABI, linkage and RECORD."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xpubuild.artifacts.abi import AbiCount, classify
from xpubuild.artifacts.audit_checks import (
    abi_findings,
    forbidden_findings,
    linkage_findings,
    machine_findings,
    outside_findings,
    rpath_findings,
    string_findings,
    sycl_findings,
    symbol_findings,
)
from xpubuild.artifacts.audit_report import (
    AuditPolicy,
    AuditReport,
    Finding,
    ObjectReport,
    raise_for,
    raise_for_findings,
)
from xpubuild.artifacts.device_findings import device_findings, summary
from xpubuild.artifacts.device_images import DeviceImage, read_device_images
from xpubuild.artifacts.elf import ElfObject, read_shared_object, read_static_symbols
from xpubuild.artifacts.linkage import DRIVER_LIBRARIES, Closure, Linker
from xpubuild.artifacts.record import hash_file
from xpubuild.artifacts.wheel import read_wheel
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen

__all__ = [
    "AuditPolicy",
    "AuditReport",
    "Finding",
    "WheelProof",
    "audit_wheel",
    "check_documents",
    "check_together",
    "raise_for_findings",
]


@frozen
class _Object:
    elf: ElfObject
    abi: AbiCount
    abi_from: str
    strings: tuple[str, ...]
    images: tuple[DeviceImage, ...]


@dataclass
class _Inside:
    """Collects what is in the objects of a wheel while it is read."""

    policy: AuditPolicy
    objects: dict[str, _Object] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def look(self, name: str, copy: Path) -> None:
        try:
            elf = read_shared_object(copy, name=name)
            abi, abi_from = _abi(elf, copy, name)
            images = read_device_images(copy, name=name)
        except AuditError as error:
            self.findings.append(Finding("error", "damaged", name, name, f"{error.what}: {error.why}"))
            return
        strings = _strings(copy, self.policy.require_strings)
        self.objects[name] = _Object(elf, abi, abi_from, strings, images)


def audit_wheel(
    wheel: Path, policy: AuditPolicy, *, search: Sequence[Path] = (), installed_in: Path | None = None
) -> AuditReport:
    """Read a wheel and hold it against a policy.

    ``search`` are folders with libraries that are loaded before or found by the environment, such as
    ``torch/lib`` of the target. RPATHs are followed as if the wheel lay in ``installed_in``, a site-packages
    folder or that of ``pip install --target``. Findings are in the report; see ``raise_for_findings``.

    Raises:
        AuditError: the file cannot be read as a wheel.
        NoSpaceError: an object did not fit into the folder for temporary files.
    """
    inside = _Inside(policy)
    contents = read_wheel(wheel, inside.look)
    elves = {name: item.elf for name, item in inside.objects.items()}
    allowed = (*DRIVER_LIBRARIES, *policy.allow_missing)
    linker = Linker(elves, search=search, allowed=allowed, installed_in=installed_in)
    closures = {name: linker.closure(name) for name in elves}
    findings = [Finding("error", item.kind, item.path, item.path, item.message) for item in contents.problems]
    findings += inside.findings
    findings += machine_findings(contents.claimed.tags, elves)
    for name, item in inside.objects.items():
        findings += abi_findings(name, item.abi, policy)
        findings += linkage_findings(name, item.elf, closures[name], search)
        findings += outside_findings(name, item.elf, closures[name], installed_in)
        findings += symbol_findings(name, linker.unresolved(name, closures[name]), policy)
    findings += rpath_findings(elves, policy)
    findings += forbidden_findings(elves, policy)
    findings += sycl_findings(_libraries(elves, closures))
    images = {name: item.images for name, item in inside.objects.items()}
    findings += device_findings(wheel.name, elves, images, policy)
    findings += string_findings(wheel.name, [item.strings for item in inside.objects.values()], policy)
    return AuditReport(
        wheel=str(wheel),
        name=contents.claimed.name,
        version=contents.claimed.version,
        sha256=hash_file(wheel).hex(),
        size=wheel.stat().st_size,
        content_digest=contents.digest,
        abi=_together(item.abi for item in inside.objects.values()).verdict,
        policy=policy,
        objects=tuple(_object_report(name, item, closures[name]) for name, item in inside.objects.items()),
        findings=tuple(findings),
    )


def check_together(reports: Sequence[AuditReport]) -> None:
    """Hold several wheels against each other: they will be in one process.

    Raises:
        AuditError: they need more than one major version of libsycl.
    """
    libraries = [
        (f"{Path(report.wheel).name}:{item.path}", (*item.needed, *item.found, item.soname))
        for report in reports
        for item in report.objects
    ]
    label = ", ".join(Path(report.wheel).name for report in reports)
    raise_for(label, list(sycl_findings(libraries)), AuditPolicy())


def check_documents(wheels: Sequence[Mapping[str, Any]]) -> None:
    """Do what ``check_together`` does, from the audits that a receipt holds.

    Raises:
        AuditError: the wheels need more than one major version of libsycl.
    """
    libraries = [
        (f"{wheel['file']}:{item['path']}", (*item["needed"], *item["found"], item["soname"]))
        for wheel in wheels
        for item in wheel["objects"]
    ]
    label = ", ".join(str(wheel["file"]) for wheel in wheels)
    raise_for(label, list(sycl_findings(libraries)), AuditPolicy())


def _libraries(
    elves: Mapping[str, ElfObject], closures: Mapping[str, Closure]
) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, (*elf.needed, *closures[name].found, elf.soname)) for name, elf in elves.items()]


def _abi(elf: ElfObject, copy: Path, name: str) -> tuple[AbiCount, str]:
    """Count in the dynamic symbols; an object that exports nothing and inlines all may still have others."""
    count = classify(elf)
    if count.new or count.old:
        return count, ".dynsym"
    static = classify(read_static_symbols(copy, name=name))
    return (static, ".symtab") if static.new or static.old else (count, "")


def _together(counts: Iterable[AbiCount]) -> AbiCount:
    everything = list(counts)
    return AbiCount(sum(count.new for count in everything), sum(count.old for count in everything))


def _strings(copy: Path, wanted: Sequence[str]) -> tuple[str, ...]:
    if not wanted:
        return ()
    with copy.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return tuple(text for text in wanted if data.find(text.encode()) >= 0)


def _object_report(name: str, item: _Object, closure: Closure) -> ObjectReport:
    return ObjectReport(
        path=name,
        abi=item.abi,
        abi_from=item.abi_from,
        soname=item.elf.soname,
        needed=item.elf.needed,
        rpath=(*item.elf.rpath, *item.elf.runpath),
        found={library: f"{provider.how}: {provider.path}" for library, provider in closure.found.items()},
        missing=tuple(missing.library for missing in closure.missing),
        allowed=closure.allowed,
        strings=item.strings,
        device_code=summary(item.images) if item.images else None,
    )


@frozen
class WheelProof:
    """A step made exactly one wheel, and it passes the audit.

    ``stage`` is the folder the build wrote into, ``pattern`` the wheel's file name with wildcards, ``search``
    and ``installed_in`` are folders with libraries (see ``audit_wheel``).
    """

    stage: str
    pattern: str
    policy: AuditPolicy
    search: tuple[str, ...] = ()
    installed_in: str = ""

    def describe(self) -> str:
        """Return what is checked."""
        parts = ["RECORD", "linkage"]
        if self.policy.cxx11_abi is not None:
            parts.insert(0, f"C++11 ABI {self.policy.cxx11_abi}")
        if self.policy.device_targets is not None:
            parts.append(f"device code for {' '.join(self.policy.device_targets) or 'XPU'}")
        return f"one wheel {self.pattern}, audited: {', '.join(parts)}"

    def key(self) -> dict[str, Any]:
        """Return what the proof depends on; the stage is where, not what."""
        return {
            "proof": "wheel",
            "pattern": self.pattern,
            "policy": self.policy.to_json(),
            "search": list(self.search),
            **({"installed_in": self.installed_in} if self.installed_in else {}),
        }

    def check(self) -> dict[str, Any]:
        """Return the audit as evidence, under ``audit``.

        Raises:
            AuditError: there is no such wheel, there are several, or the audit found an error.
        """
        found = sorted(Path(self.stage).rglob(self.pattern))
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise AuditError(
                f"the build should have created one wheel {self.pattern}",
                why=f"{self.stage} has: {names}",
                fix=(
                    "run the same command again; if the error repeats, read the build log to see what was "
                    "packed"
                ),
                evidence={"stage": self.stage, "wheels": [str(path) for path in found]},
            )
        report = audit_wheel(
            found[0],
            self.policy,
            search=[Path(folder) for folder in self.search],
            installed_in=Path(self.installed_in) if self.installed_in else None,
        )
        raise_for_findings(report)
        return {"audit": report.to_json()}

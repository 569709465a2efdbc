"""The audit of a wheel: checks its files for C++ ABI, linkage and RECORD."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
    raise_for_findings,
)
from xpubuild.artifacts.device_findings import device_findings, summary
from xpubuild.artifacts.device_images import DeviceImage, images_in
from xpubuild.artifacts.elf import ElfObject, ElfReader, opened
from xpubuild.artifacts.linkage import DRIVER_LIBRARIES, Closure, Linker
from xpubuild.artifacts.record import hash_file
from xpubuild.artifacts.wheel import read_wheel
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen

__all__ = [
    "AuditPolicy",
    "AuditReport",
    "Finding",
    "audit_wheel",
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
            with opened(copy, name) as file:
                elf = file.object()
                abi, abi_from = _abi(elf, file)
                images, strings = images_in(file), _strings(file, self.policy.require_strings)
        except AuditError as error:
            self.findings.append(Finding("error", "damaged", name, name, f"{error.what}: {error.why}"))
            return
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


def _libraries(
    elves: Mapping[str, ElfObject], closures: Mapping[str, Closure]
) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, (*elf.needed, *closures[name].found, elf.soname)) for name, elf in elves.items()]


def _abi(elf: ElfObject, file: ElfReader) -> tuple[AbiCount, str]:
    """Count in the dynamic symbols; an object that exports nothing and inlines all may still have others."""
    count = classify(elf)
    if count.new or count.old:
        return count, ".dynsym"
    static = classify(file.static_symbols())
    return (static, ".symtab") if static.new or static.old else (count, "")


def _together(counts: Iterable[AbiCount]) -> AbiCount:
    everything = list(counts)
    return AbiCount(sum(count.new for count in everything), sum(count.old for count in everything))


def _strings(file: ElfReader, wanted: Sequence[str]) -> tuple[str, ...]:
    return tuple(text for text in wanted if file.data.find(text.encode()) >= 0)


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

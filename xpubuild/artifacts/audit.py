"""The audit of a wheel: checks its files for C++ ABI, linkage, device code and RECORD."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from xpubuild.artifacts import audit_checks as checks
from xpubuild.artifacts.abi import AbiCounts, classify
from xpubuild.artifacts.audit_checks import brought_by_requirements, elsewhere_findings
from xpubuild.artifacts.audit_report import AuditedObject, AuditedWheel, AuditPolicy, Finding
from xpubuild.artifacts.device_findings import device_findings, summary
from xpubuild.artifacts.device_images import DeviceImage, images_in
from xpubuild.artifacts.elf import ElfObject, ElfReader, opened
from xpubuild.artifacts.linkage import DRIVER_LIBRARIES, Linker
from xpubuild.artifacts.wheel import read_wheel
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.errors import AuditError


def audit_wheel(
    wheel: Path, policy: AuditPolicy, *, search: Sequence[Path] = (), installed_in: Path | None = None,
    more: Sequence[Finding] = (),
) -> AuditedWheel:  # fmt: skip
    """Read a wheel and hold it against a policy.

    ``search`` are folders with libraries that are loaded before or found by the environment, such as
    ``torch/lib`` of the target. RPATHs are followed as if the wheel lay in ``installed_in``, a site-packages
    folder or that of ``pip install --target``. Findings, and ``more`` of them, are in the report; see
    ``raise_for_findings``.

    Raises:
        AuditError: the file cannot be read as a wheel.
        NoSpaceError: an object did not fit into the folder for temporary files.
    """
    elves: dict[str, ElfObject] = {}
    images: dict[str, tuple[DeviceImage, ...]] = {}
    parts: dict[str, Callable[..., AuditedObject]] = {}
    damaged: list[Finding] = []

    def look(name: str, copy: Path) -> None:
        try:
            with opened(copy, name) as file:
                elf = file.object()
                abi, abi_from = _abi(elf, file)
                found = images_in(file)
                strings = tuple(text for text in policy.require_strings if file.data.find(text.encode()) >= 0)
        except AuditError as error:
            damaged.append(Finding("error", "damaged", name, name, f"{error.what}: {error.why}"))
            return
        elves[name], images[name] = elf, found
        parts[name] = functools.partial(
            AuditedObject, path=name, abi=abi.verdict, abi_counts=abi, abi_from=abi_from, soname=elf.soname,
            needed=elf.needed, rpath=(*elf.rpath, *elf.runpath), strings=strings,
            device_code=summary(found) if found else None,
        )  # fmt: skip

    contents = read_wheel(wheel, look)
    allowed = (*DRIVER_LIBRARIES, *policy.allow_missing, *brought_by_requirements(contents, elves))
    linker = Linker(elves, search=search, allowed=allowed, installed_in=installed_in)
    closures = {name: linker.closure(name) for name in elves}
    objects = {
        name: part(
            found={library: f"{it.how}: {it.path}" for library, it in closures[name].found.items()},
            missing=tuple(it.library for it in closures[name].missing),
            allowed=closures[name].allowed,
        )
        for name, part in parts.items()
    }
    findings = [*contents.problems, *damaged]
    findings += checks.machine_findings(contents.claimed.tags, elves)
    findings += elsewhere_findings(contents, elves, policy)
    for name, elf in elves.items():
        findings += checks.abi_findings(name, objects[name].abi_counts, policy)
        findings += checks.linkage_findings(name, elf, closures[name], search)
        findings += checks.outside_findings(name, elf, closures[name], installed_in)
        findings += checks.symbol_findings(name, linker.unresolved(name, closures), policy)
    findings += checks.rpath_findings(elves, policy)
    findings += checks.forbidden_findings(elves, policy)
    libraries = ((name, (*elf.needed, *closures[name].found, elf.soname)) for name, elf in elves.items())
    findings += checks.sycl_findings(libraries)
    findings += device_findings(wheel.name, elves, images, policy)
    findings += checks.string_findings(wheel.name, [item.strings for item in objects.values()], policy)
    findings += more
    failed = any(finding.severity == "error" for finding in findings)
    new, old = (sum(getattr(item.abi_counts, side) for item in objects.values()) for side in ("new", "old"))
    return AuditedWheel(
        wheel=str(wheel), status="fail" if failed else "warn" if findings else "ok",
        name=contents.claimed.name, version=contents.claimed.version, sha256=file_sha256(wheel),
        size=wheel.stat().st_size, content_digest=contents.digest,
        abi=None if new == old else 1 if new > old else 0, policy=policy, objects=tuple(objects.values()),
        findings=tuple(findings),
    )  # fmt: skip


def _abi(elf: ElfObject, file: ElfReader) -> tuple[AbiCounts, str]:
    """Count in the dynamic symbols; an object that exports nothing and inlines all may still have others."""
    count = classify(elf)
    if count.new or count.old:
        return count, ".dynsym"
    static = classify(file.static_symbols())
    return (static, ".symtab") if static.new or static.old else (count, "")

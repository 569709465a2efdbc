"""The audit of a wheel: checks its files for C++ ABI, linkage, device code and RECORD."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xpubuild.artifacts import audit_checks as checks
from xpubuild.artifacts.abi import AbiCounts, classify
from xpubuild.artifacts.audit_elsewhere import brought_by_requirements, elsewhere_findings
from xpubuild.artifacts.audit_report import AuditedObject, AuditedWheel, AuditPolicy, Finding, status_of
from xpubuild.artifacts.device_findings import device_findings, summary
from xpubuild.artifacts.device_images import DeviceImage, images_in
from xpubuild.artifacts.elf import ElfObject, ElfReader, opened
from xpubuild.artifacts.linkage import DRIVER_LIBRARIES, Closure, Linker
from xpubuild.artifacts.wheel import read_wheel
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen


@frozen
class _Object:
    """What was read of a shared object while the wheel had it unpacked."""

    elf: ElfObject
    abi: AbiCounts
    abi_from: str
    strings: tuple[str, ...]
    images: tuple[DeviceImage, ...]


def audit_wheel(
    wheel: Path,
    policy: AuditPolicy,
    *,
    search: Sequence[Path] = (),
    installed_in: Path | None = None,
    more: Sequence[Finding] = (),
) -> AuditedWheel:
    """Read a wheel and hold it against a policy.

    ``search`` are folders with libraries that are loaded before or found by the environment, such as
    ``torch/lib`` of the target. RPATHs are followed as if the wheel lay in ``installed_in``, a site-packages
    folder or that of ``pip install --target``. Findings, and ``more`` of them, are in the report; see
    ``raise_for_findings``.

    Raises:
        AuditError: the file cannot be read as a wheel.
        NoSpaceError: an object did not fit into the folder for temporary files.
    """
    objects: dict[str, _Object] = {}
    damaged: list[Finding] = []

    def look(name: str, copy: Path) -> None:
        try:
            with opened(copy, name) as file:
                elf = file.object()
                abi, abi_from = _abi(elf, file)
                strings = tuple(text for text in policy.require_strings if file.data.find(text.encode()) >= 0)
                objects[name] = _Object(elf, abi, abi_from, strings, images_in(file))
        except AuditError as error:
            damaged.append(Finding("error", "damaged", name, name, f"{error.what}: {error.why}"))

    contents = read_wheel(wheel, look)
    elves = {name: item.elf for name, item in objects.items()}
    brought = brought_by_requirements(contents, elves)
    allowed = (*DRIVER_LIBRARIES, *policy.allow_missing, *brought)
    linker = Linker(elves, search=search, allowed=allowed, installed_in=installed_in)
    closures = {name: linker.closure(name) for name in elves}
    findings = [Finding("error", item.kind, item.path, item.path, item.message) for item in contents.problems]
    findings += damaged
    findings += checks.machine_findings(contents.claimed.tags, elves)
    findings += elsewhere_findings(contents, elves, policy)
    for name, item in objects.items():
        findings += checks.abi_findings(name, item.abi, policy)
        findings += checks.linkage_findings(name, item.elf, closures[name], search)
        findings += checks.outside_findings(name, item.elf, closures[name], installed_in)
        findings += checks.symbol_findings(name, linker.unresolved(name, closures), policy)
    findings += checks.rpath_findings(elves, policy)
    findings += checks.forbidden_findings(elves, policy)
    findings += checks.sycl_findings(
        (name, (*elf.needed, *closures[name].found, elf.soname)) for name, elf in elves.items()
    )
    images = {name: item.images for name, item in objects.items()}
    findings += device_findings(wheel.name, elves, images, policy)
    findings += checks.string_findings(wheel.name, [item.strings for item in objects.values()], policy)
    findings += more
    new, old = (sum(getattr(item.abi, side) for item in objects.values()) for side in ("new", "old"))
    return AuditedWheel(
        wheel=str(wheel),
        status=status_of(findings),
        name=contents.claimed.name,
        version=contents.claimed.version,
        sha256=file_sha256(wheel),
        size=wheel.stat().st_size,
        content_digest=contents.digest,
        abi=None if new == old else 1 if new > old else 0,
        policy=policy,
        objects=tuple(_reported(name, item, closures[name]) for name, item in objects.items()),
        findings=tuple(findings),
    )


def _abi(elf: ElfObject, file: ElfReader) -> tuple[AbiCounts, str]:
    """Count in the dynamic symbols; an object that exports nothing and inlines all may still have others."""
    count = classify(elf)
    if count.new or count.old:
        return count, ".dynsym"
    static = classify(file.static_symbols())
    return (static, ".symtab") if static.new or static.old else (count, "")


def _reported(name: str, item: _Object, closure: Closure) -> AuditedObject:
    return AuditedObject(
        path=name,
        abi=item.abi.verdict,
        abi_counts=item.abi,
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

"""The checks of the objects of a wheel, one function for each, and of wheels that share a process."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from xpubuild.artifacts.abi import AbiCounts
from xpubuild.artifacts.audit_report import AuditPolicy, Finding, Findings, Severity, raise_for
from xpubuild.artifacts.elf import ElfObject, Elves
from xpubuild.artifacts.linkage import ORIGIN, Closure, rpath_problem, sycl_runtimes
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import query
from xpubuild.errors import ToolchainError

_MACHINES = {
    "x86_64": "EM_X86_64", "aarch64": "EM_AARCH64", "i686": "EM_386", "ppc64le": "EM_PPC64",
    "s390x": "EM_S390", "riscv64": "EM_RISCV",
}  # fmt: skip
_MOST_SYMBOLS = 3
_LONGEST_NAME = 160


def machine_findings(tags: Iterable[str], elves: Elves) -> Findings:
    """Yield objects for another processor than the platform tag; code for a GPU is none of its business."""
    platforms = sorted({tag.rpartition("-")[2] for tag in tags})
    wanted = {machine for name, machine in _MACHINES.items() for tag in platforms if tag.endswith(f"_{name}")}
    for name, elf in elves.items():
        if wanted and elf.machine in _MACHINES.values() and elf.machine not in wanted:
            message = f"{name} is for {elf.machine}, but the wheel's file name has {', '.join(platforms)}"
            yield Finding("error", "tags", name, elf.machine, message)


def abi_findings(name: str, count: AbiCounts, policy: AuditPolicy) -> Findings:
    """Yield an object of the other C++ ABI, or of both."""
    wanted = policy.cxx11_abi
    if wanted is None or not (count.new or count.old):
        return
    against = count.against(wanted)
    tally = f"{count.new} of its symbols have the C++11 ABI (1), {count.old} the old one (0)"
    severity: Severity = "warning" if count.verdict == wanted else "error"
    what = "mixes both C++ ABIs"
    if count.verdict != wanted:
        what = f"was not compiled for C++11 ABI {wanted}"
    if against:
        message = f"{name} {what}: {tally}, for example {readable(against[0])}"
        yield Finding(severity, "abi", name, against[0], message)


def readable(symbol: str) -> str:
    """Return a symbol for a message: demangled and shortened, where the binutils are there to do it."""
    try:
        answer = query(["c++filt", symbol], env=base_environment())
    except ToolchainError:
        return symbol
    text = answer.stdout.strip()
    if not answer.ok or not text or text == symbol:
        return symbol
    return f"{text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + '...'} [{symbol}]"


def linkage_findings(name: str, elf: ElfObject, closure: Closure, search: Sequence[Path]) -> Findings:
    """Yield libraries that nobody provides, that the loader will not find, or that are too old."""
    folders = "".join(f", {folder}" for folder in search)
    for missing in closure.missing:
        chain = " -> ".join(missing.chain)
        message = (
            f"{chain} needs {missing.library}, which is not on its RPATH, in the wheel{folders} or on "
            "the system"
        )
        yield Finding("error", "missing-library", name, missing.library, message)
    for library in elf.needed:
        provider = closure.found.get(library)
        if provider is not None and provider.how == "elsewhere":
            where = f"which is in the wheel at {provider.path}, but not on its RPATH"
            message = f"{name} needs {library}, {where}"
            yield Finding("warning", "not-on-rpath", name, library, message)
    for library, versions in elf.versions_needed.items():
        provider = closure.found.get(library)
        # A library without any versions is right: the loader accepts it with a warning at most.
        if provider is None or not provider.elf.versions_defined:
            continue
        for version in versions:
            if version not in provider.elf.versions_defined:
                message = f"{name} needs {version} of {library}, but {provider.path} does not have it"
                yield Finding("error", "missing-version", name, version, message)


def outside_findings(name: str, elf: ElfObject, closure: Closure, installed_in: Path | None) -> Findings:
    """Yield an RPATH that leads out of the wheel's folder to where a library is missing."""
    if installed_in is None or not {item.library for item in closure.missing} & set(elf.needed):
        return
    place = installed_in.absolute()
    for entry in (*elf.rpath, *elf.runpath):
        folder = Path(posixpath.normpath(ORIGIN.sub(str(place / PurePosixPath(name).parent), entry)))
        if ORIGIN.match(entry) and not folder.is_relative_to(place):
            message = f"{name}: RPATH has {entry}, which leads out of {installed_in} to {folder}"
            yield Finding("error", "outside", name, entry, message)


def symbol_findings(name: str, unresolved: Sequence[str], policy: AuditPolicy) -> Findings:
    """Yield an object whose symbols are not all defined by what it needs."""
    if unresolved:
        shown = ", ".join(map(readable, unresolved[:_MOST_SYMBOLS]))
        more = f" and {len(unresolved) - _MOST_SYMBOLS} more" if len(unresolved) > _MOST_SYMBOLS else ""
        message = f"{name} needs symbols that none of its libraries has: {shown}{more}"
        yield Finding(policy.unresolved_symbols, "unresolved-symbol", name, unresolved[0], message)


def rpath_findings(elves: Elves, policy: AuditPolicy) -> Findings:
    """Yield search paths that lead somewhere else on another machine, each once."""
    entries: dict[tuple[str, str], list[str]] = {}
    for name, elf in elves.items():
        for entry in dict.fromkeys((*elf.rpath, *elf.runpath)):
            problem = rpath_problem(entry)
            if problem:
                entries.setdefault((problem, entry), []).append(name)
    for (problem, entry), names in entries.items():
        who = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        message, severity = f"{who}: RPATH has {entry}, a folder of the build machine", policy.absolute_rpath
        if problem == "relative":
            message = f"{who}: RPATH has '{entry}', which is relative to the current folder"
            severity = "error"
        yield Finding(severity, "rpath", names[0], entry, message)


def forbidden_findings(elves: Elves, policy: AuditPolicy) -> Findings:
    """Yield objects that need, or are, a library that must not be shared here.

    A pattern is for every object or, as ``OBJECT:LIBRARY``, for some.
    """
    for name, elf in elves.items():
        file = PurePosixPath(name).name
        patterns = [(pattern, *pattern.rpartition(":")) for pattern in policy.forbid_needed]
        own = [(item, what) for item, where, colon, what in patterns if not colon or fnmatchcase(file, where)]
        for library in dict.fromkeys((*elf.needed, elf.soname, file)):
            for pattern in [pattern for pattern, what in own if fnmatchcase(library, what)][:1]:
                how = "needs" if library in elf.needed else "is"
                message = f"{name} {how} {library}, which must be linked statically here ({pattern})"
                yield Finding("error", "forbidden-library", name, library, message)


def sycl_findings(libraries: Iterable[tuple[str, Iterable[str]]]) -> Findings:
    """Yield a second SYCL runtime among (object, the libraries it leads to)."""
    runtimes = sycl_runtimes(libraries)
    if len(runtimes) > 1:
        parts = [f"{runtime} by {names[0]}" for runtime, names in sorted(runtimes.items())]
        last = max(runtimes, key=lambda runtime: (int(runtime.rpartition(".")[2]), runtime))
        message = f"more than one SYCL runtime is needed: {', '.join(parts)}"
        yield Finding("error", "two-sycl", runtimes[last][0], last, message)


def string_findings(label: str, found: Iterable[Sequence[str]], policy: AuditPolicy) -> Findings:
    """Yield a wheel without any of the required strings; ``found`` are those of each object."""
    wanted = policy.require_strings
    if wanted and not any(found):
        texts = " or ".join(f"'{text}'" for text in wanted)
        message = f"no object of {label} contains {texts}"
        yield Finding("error", "missing-string", label, wanted[0], message)


def check_documents(wheels: Sequence[Mapping[str, Any]]) -> None:
    """Compare several wheels by the audits that a receipt holds: they will be in one process.

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

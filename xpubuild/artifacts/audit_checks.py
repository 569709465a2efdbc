"""The checks of the objects of a wheel, one function for each, and of wheels that share a process.

A wheel that is loaded where it was built may still look for its libraries at a place of that machine, want a
newer system than its tag promises, or need a distribution that it does not require.
"""

from __future__ import annotations

import configparser
import email.parser
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.utils import canonicalize_name

from xpubuild.artifacts.abi import AbiCounts
from xpubuild.artifacts.audit_report import AuditPolicy, Finding, Findings, Severity, raise_for
from xpubuild.artifacts.elf import ElfObject, Elves
from xpubuild.artifacts.freeze import TRITON
from xpubuild.artifacts.linkage import ORIGIN, Closure, rpath_problem, sycl_runtimes
from xpubuild.artifacts.repair_runtime import distributions_of
from xpubuild.artifacts.site_packages import requirements_in
from xpubuild.artifacts.wheel import WheelContents
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
    what = "mixes both C++ ABIs" if count.verdict == wanted else f"was not compiled for C++11 ABI {wanted}"
    if against:
        message = f"{name} {what}: {tally}, for example {readable(against[0])}"
        yield Finding("warning" if count.verdict == wanted else "error", "abi", name, against[0], message)


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
        where = f"which is not on its RPATH, in the wheel{folders} or on the system"
        message = f"{chain} needs {missing.library}, {where}"
        yield Finding("error", "missing-library", name, missing.library, message)
    for library in elf.needed:
        provider = closure.found.get(library)
        if provider is not None and provider.how == "elsewhere":
            where = f"which is in the wheel at {provider.path}, but not on its RPATH"
            yield Finding("warning", "not-on-rpath", name, library, f"{name} needs {library}, {where}")
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
        yield Finding("error", "missing-string", label, wanted[0], f"no object of {label} contains {texts}")


def check_documents(wheels: Sequence[Mapping[str, Any]]) -> None:
    """Compare several wheels by the audits that a receipt holds: they will be in one process.

    Raises:
        AuditError: the wheels need more than one major version of libsycl.
    """
    objects = ((wheel["file"], item) for wheel in wheels for item in wheel["objects"])
    names = ((f"{file}:{it['path']}", (*it["needed"], *it["found"], it["soname"])) for file, it in objects)
    label = ", ".join(str(wheel["file"]) for wheel in wheels)
    raise_for(label, list(sycl_findings(names)), AuditPolicy())


#: site-packages is PREFIX/lib/python3.X/site-packages.
_BELOW_PREFIX = "lib/python/site-packages"
#: Programs that everything else is installed and run with.
_PROGRAMS = re.compile(r"(python|pip|sh|bash|env|git|gcc|g\+\+|cc|c\+\+|ld|make)[\d.]*")
#: What Python runs at every start.
_AT_START = frozenset({"sitecustomize", "usercustomize"})
#: Import package -> the distributions that may contain it; any other would overwrite it.
_OWNERS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("torch", "torchvision", "torchaudio", "numpy", "pip", "setuptools")},
    "torchgen": ("torch",),
    "functorch": ("torch", "functorch"),
    "triton": TRITON,
    "pkg_resources": ("setuptools",),
    "_distutils_hack": ("setuptools",),
}
#: Distribution -> its files that Python reads at every start.
_OWN_PTH = {"setuptools": ("distutils-precedence.pth",)}
_IN_SITE = re.compile(r"lib(?:64)?/python[\d.]+/(?:site|dist)-packages/(.+)")
_MANYLINUX = re.compile(r"manylinux(?:_\d+_\d+|1|2010|2014)_\w+")


def _of_object(name: str, elf: ElfObject, elsewhere: Severity) -> Iterator[tuple[Severity, str, str, str]]:
    """Yield severity, kind, what it is about, and the message without the object's name."""
    for library in elf.needed:
        if library.startswith("/"):
            yield elsewhere, "rpath", library, f"needs {library}, a file of the build machine"
        elif "/" in library:
            yield "error", "rpath", library, f"needs {library}, a path from the current folder, not a name"
    for tag, library in elf.hooks:
        message = f"has {tag} {library}: the loader runs that library beside it or in its place"
        yield "error", "loader-hook", library, message
    start = posixpath.dirname(posixpath.join(_BELOW_PREFIX, name))
    for entry in dict.fromkeys((*elf.rpath, *elf.runpath)):
        if ORIGIN.match(entry) and posixpath.normpath(ORIGIN.sub(start, entry)).startswith(".."):
            message = f"RPATH has {entry}, which leads out of any environment that it is installed in"
            yield "error", "rpath", entry, message
    if elf.runs_stack:
        message = "asks for a stack that can be run: glibc 2.41 and SELinux do not load it"
        yield elsewhere, "executable-stack", "PT_GNU_STACK", message


def elsewhere_findings(contents: WheelContents, elves: Elves, policy: AuditPolicy) -> Findings:
    """Yield what would fail, or do harm, on another machine or in an environment with other packages."""
    for name, elf in elves.items():
        for severity, kind, about, message in _of_object(name, elf, policy.elsewhere):
            yield Finding(severity, kind, name, about, f"{name} {message}")
    yield from _platform_findings(contents, elves, policy)
    yield from _requirement_findings(contents, elves, policy)
    for name, message in (*_entry_points(contents), *_members(contents)):
        yield Finding("error", "takes-over", name, name, message)
    archives = sorted((item for item in contents.members if item.is_archive), key=lambda item: -item.size)
    if archives:
        largest, size = archives[0].name, sum(item.size for item in archives) / 1e6
        more = f" and {len(archives) - 1} more" if archives[1:] else ""
        message = f"{largest}{more}: static libraries, {size:,.1f} MB; what they were made of is not checked"
        yield Finding("warning", "static-library", largest, largest, message)


def _platform_findings(contents: WheelContents, elves: Elves, policy: AuditPolicy) -> Findings:
    """Yield a manylinux tag that the symbol versions of the objects do not keep."""
    tags = sorted({tag.rpartition("-")[2] for tag in contents.claimed.tags})
    claimed = [tag for tag in tags if _MANYLINUX.fullmatch(tag)]
    machines = {elf.machine for elf in elves.values()}
    if not claimed or len(machines) != 1:
        return
    # auditwheel and its policies take time to import, and a wheel of this machine alone needs neither.
    from xpubuild.artifacts.repair_decide import Platforms  # noqa: PLC0415

    platforms = Platforms(machines)
    inside = {posixpath.basename(name) for name in elves} | {elf.soname for elf in elves.values()}
    system = {item for elf in elves.values() for item in elf.needed if platforms.of_system(item)} - inside
    for name, elf in elves.items():
        for library in sorted(system & set(elf.versions_needed)):
            for version in elf.versions_needed[library]:
                if all(platforms.has(tag, library, version) for tag in claimed):
                    continue
                message = f"{name} needs {version} of {library}, which systems of {', '.join(claimed)} lack"
                yield Finding(policy.elsewhere, "platform", name, version, message)


def _brought(contents: WheelContents, elves: Elves) -> Iterator[tuple[str, str, str, str]]:
    """Yield (object, library of a distribution, requirement that provides it or "", who could provide it)."""
    text = next((text for name, text in contents.texts.items() if name.endswith("/METADATA")), "")
    lines = email.parser.Parser().parsestr(text, headersonly=True).get_all("Requires-Dist", [])
    # What is required without an extra.
    required = {canonicalize_name(one.name) for one in requirements_in(lines)}
    inside = {posixpath.basename(name) for name in elves} | {elf.soname for elf in elves.values()}
    for name, elf in elves.items():
        for library in elf.needed:
            owners = distributions_of(library)
            if owners and library not in inside and contents.claimed.name not in owners:
                # torch for XPU requires those with Intel's runtime.
                by = next((dist for dist in (*owners, "torch") if dist in required), "")
                yield name, library, by, " or ".join(owners)


def brought_by_requirements(contents: WheelContents, elves: Elves) -> tuple[str, ...]:
    """Return the libraries that an environment has because METADATA requires the distribution with them."""
    return tuple(sorted({library for _, library, by, _ in _brought(contents, elves) if by}))


def _requirement_findings(contents: WheelContents, elves: Elves, policy: AuditPolicy) -> Findings:
    missing: dict[str, tuple[str, str]] = {}
    for name, library, by, owners in _brought(contents, elves):
        # What the policy expects on the machine needs no distribution; that torch is there says another one.
        machines = owners != "torch" and any(fnmatchcase(library, item) for item in policy.allow_missing)
        if not by and not machines:
            missing.setdefault(library, (name, owners))
    for library, (name, owners) in missing.items():
        message = f"{name} needs {library} of {owners}, which METADATA does not require"
        # A machine may have oneAPI itself.
        severity = policy.elsewhere if owners == "torch" else "warning"
        yield Finding(severity, "requirement", name, library, message)


def _entry_points(contents: WheelContents) -> Iterator[tuple[str, str]]:
    """Yield programs that are no plain names, or take the place of one that everything is run with."""
    for path, text in contents.texts.items():
        if not path.endswith("/entry_points.txt"):
            continue
        parser = configparser.RawConfigParser(delimiters=("=",), strict=False)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        try:
            parser.read_string(text)
        except configparser.Error as error:
            yield path, f"{path} cannot be read: {error.message}"
            continue
        for section in {"console_scripts", "gui_scripts"} & set(parser.sections()):
            for name in parser[section]:
                if "/" in name or name.startswith("."):
                    yield path, f"{path} would write a program outside of its folder: {name}"
                elif _PROGRAMS.fullmatch(name) and contents.claimed.name != "pip":
                    yield path, f"{path} would install a program named {name}"


def _members(contents: WheelContents) -> Iterator[tuple[str, str]]:
    """Yield files that Python runs at every start, and packages and programs of other distributions."""
    dist = contents.claimed.name
    tops: dict[str, str] = {}
    for member in contents.members:
        first, _, rest = member.name.partition("/")
        if first.endswith(".data"):
            kind, _, rest = rest.partition("/")
            # What is data is installed below the prefix: bin, pyvenv.cfg, lib/python3.11/site-packages.
            kind, rest = ("purelib", found[1]) if (found := _IN_SITE.fullmatch(rest)) else (kind, rest)
            program = rest.removeprefix("bin/") if kind == "data" else rest if kind == "scripts" else ""
            if _PROGRAMS.fullmatch(program) and dist != "pip":
                yield member.name, f"{member.name} would be installed as the program {program}"
            elif (kind, rest) == ("data", "pyvenv.cfg"):
                yield member.name, f"{member.name} would decide what the environment imports"
            first = rest.partition("/")[0] if kind in ("purelib", "platlib") else ""
        if first.endswith(".pth") and first not in _OWN_PTH.get(dist, ()):
            yield member.name, f"{member.name} is read, and may be run, at every start of Python"
        tops.setdefault(first.partition(".")[0], member.name)
    for top, name in tops.items():
        if top in _AT_START:
            yield name, f"{name} would be run at every start of Python"
        elif dist not in _OWNERS.get(top, (dist,)):
            yield name, f"{name} is in the package {top} of {' or '.join(_OWNERS[top])}"

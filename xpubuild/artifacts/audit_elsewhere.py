"""What of a wheel depends on the machine that built it, or takes over others.

A wheel that is loaded where it was built may still look for its libraries at a place of that machine, want a
newer system than its tag promises, or need a distribution that it does not require.
"""

from __future__ import annotations

import configparser
import email.parser
import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from packaging.utils import canonicalize_name

from xpubuild.artifacts.audit_report import AuditPolicy, Finding, Findings, Severity
from xpubuild.artifacts.elf import ElfObject, Elves
from xpubuild.artifacts.freeze import TRITON
from xpubuild.artifacts.linkage import ORIGIN
from xpubuild.artifacts.repair_runtime import distributions_of
from xpubuild.artifacts.site_packages import requirements_in
from xpubuild.artifacts.wheel import WheelContents

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

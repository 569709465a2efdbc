"""What kind of machine this is: PyTorch for XPU exists for one kind."""

from __future__ import annotations

from xpubuild.doctor.checks.python import interpreter
from xpubuild.doctor.context import Context
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.host.readers import UNKNOWN, entries

_ARCHITECTURE = "x86_64"
_BITS = 64
# Where the psABI, and glibc for other machines, puts the dynamic loader; a merged /usr has both folders.
_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_GLIBC = {
    "ld-linux-x86-64.so.2": _ARCHITECTURE,
    "ld-linux-aarch64.so.1": "aarch64",
    "ld64.so.2": "ppc64le",
    "ld-linux-riscv64-lp64d.so.1": "riscv64",
    "ld-linux.so.2": "i686",
}
_MUSL = ("ld-musl-", ".so.1")
_ELSEWHERE = Fix(
    "use an x86_64 host, or a container image of one, with glibc (Debian, Ubuntu, RHEL, SUSE) and a 64-bit"
    " Python: neither Intel's oneAPI nor a wheel of PyTorch for XPU exists for another kind of machine",
    ("uname -m", "ldd --version"),
)


class MachinePlatform(Check):
    """The machine, its C library and the interpreter are of the kind that PyTorch for XPU exists for."""

    id = "machine.platform"
    title = "PyTorch for XPU exists for this kind of machine"
    families = ("F-wrong-torch-or-triton-package",)
    explanation = """\
PyTorch for XPU is published as `manylinux` wheels for x86_64, and Intel's compiler, which builds it, runs
on x86_64 with glibc alone. On aarch64, with musl (Alpine), with a 32-bit kernel personality
(`linux32`, an i386 container) or a 32-bit Python there is neither a wheel nor a compiler: pip then takes
a torch for the CPU from its own index, or says that no version matches.

Looks at what the kernel calls the machine, at the C library that this program runs with, and at the
width of the interpreter that matters; in an image, at the dynamic loaders that it has. There is nothing to
mend: another machine or another image is needed.
"""

    def run(self, context: Context) -> Outcome:
        machines, musl = _loaders(context)
        system = context.host.os
        machine = system.machine
        libc = system.libc
        if machine == UNKNOWN and not context.live:
            # An image may hold loaders of several kinds, for emulation; one that fits is enough.
            machine = next((name for name in _GLIBC.values() if name in machines), musl or UNKNOWN)
        if libc == UNKNOWN and musl and (context.live or not machines):
            libc = "musl"
        evidence = {"machine": machine, "libc": libc, "loaders": sorted(machines)}
        if machine not in (_ARCHITECTURE, UNKNOWN):
            return self.found(
                f"this is {machine}, and PyTorch for XPU exists for x86_64", _ELSEWHERE, **evidence
            )
        if libc == "musl":
            detail = "the C library is musl, and PyTorch for XPU and oneAPI exist for glibc"
            return self.found(detail, _ELSEWHERE, **evidence)
        python = context.probe(interpreter)
        if python is not None and python.bits not in (_BITS, None):
            detail = (
                f"{python.executable} is a Python of {python.bits} bits, and PyTorch for XPU needs one of 64"
            )
            return self.found(detail, _ELSEWHERE, **evidence)
        if machine == UNKNOWN:
            return self.skip("what kind of machine it is for is not known: it has no dynamic loader")
        told = libc if libc != UNKNOWN else "an unknown C library"
        return self.ok(f"{machine} with {told}", **evidence)


def _loaders(context: Context) -> tuple[frozenset[str], str]:
    """Return the machines that glibc's loaders are there for, and the one that musl's is for, or ''.

    Names are enough: in an image a link may lead to an absolute path, which means another file here.
    """
    names = {path.name for folder in _FOLDERS for path in entries(context.path(folder), context.root)}
    start, end = _MUSL
    musl = sorted(name for name in names if name.startswith(start) and name.endswith(end))
    first = musl[0].removeprefix(start).removesuffix(end) if musl else ""
    return frozenset(_GLIBC[name] for name in names & _GLIBC.keys()), first

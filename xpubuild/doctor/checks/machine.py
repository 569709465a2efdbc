"""The platform: PyTorch for XPU supports only one."""

from __future__ import annotations

from xpubuild.doctor.kit import Look, Outcome, check, finding, ok, skip, todo
from xpubuild.doctor.look.sites import interpreter
from xpubuild.machine.readers import UNKNOWN, entries

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
_ELSEWHERE = todo(
    "use an x86_64 host or container image with glibc (Debian, Ubuntu, RHEL, SUSE) and a 64-bit"
    " Python: oneAPI and PyTorch for XPU support no other platform",
    "uname -m",
    "ldd --version",
)


@check("machine.platform")
def machine_platform(look: Look) -> Outcome:
    """PyTorch for XPU supports this platform.

    PyTorch for XPU is published as `manylinux` wheels for x86_64, and Intel's compiler, which builds
    it, runs only on x86_64 with glibc. On aarch64, with musl (Alpine), with a 32-bit kernel personality
    (`linux32`, an i386 container) or with a 32-bit Python there is neither a wheel nor a compiler: pip
    then installs a torch for the CPU from its own index, or reports that no version matches.

    Checks the machine type that the kernel reports, the C library of the running program, and whether
    the selected interpreter is 64-bit; in an image, the dynamic loaders in it. This cannot be fixed on
    the machine: use another machine or another image.
    """
    # Names are enough: in an image a link may have an absolute target, which is another file on this machine.
    names = {path.name for folder in _FOLDERS for path in entries(look.path(folder), look.root)}
    loaders = {_GLIBC[name] for name in names & _GLIBC.keys()}
    start, end = _MUSL
    musl = sorted(name for name in names if name.startswith(start) and name.endswith(end))
    machine, libc = look.host.os.machine, look.host.os.libc
    if machine == UNKNOWN and not look.live:
        # An image may hold loaders of several kinds, for emulation; one that fits is enough.
        of_musl = musl[0].removeprefix(start).removesuffix(end) if musl else UNKNOWN
        machine = next((name for name in _GLIBC.values() if name in loaders), of_musl)
    if libc == UNKNOWN and musl and (look.live or not loaders):
        libc = "musl"
    evidence = {"machine": machine, "libc": libc, "loaders": sorted(loaders)}
    python = interpreter(look)
    if machine not in (_ARCHITECTURE, UNKNOWN):
        detail = f"the machine is {machine}, but PyTorch for XPU requires x86_64"
    elif libc == "musl":
        detail = "the C library is musl, but PyTorch for XPU and oneAPI require glibc"
    elif python is not None and python.bits not in (_BITS, None):
        detail = f"{python.executable} is a {python.bits}-bit Python, but PyTorch for XPU requires 64 bits"
    elif machine == UNKNOWN:
        return skip("the platform is unknown: there is no dynamic loader")
    else:
        return ok(f"{machine} with {libc if libc != UNKNOWN else 'an unknown C library'}", **evidence)
    return finding(detail, _ELSEWHERE, **evidence)

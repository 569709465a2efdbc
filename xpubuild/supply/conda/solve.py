"""Solves specifications to a lock: with conda-lock where it and conda are installed, else with py-rattler.

py-rattler runs in a process of its own. conda-lock itself searches for a conda executable for a minute, and
then downloads one: so it is run only if one was found, with its path.

A lock with packages that conflict with an XPU build is refused. Compilers, binutils, sysroots of conda:
PyTorch's CMake and ``distutils`` would compile against another C library than the host's, and host objects
would not link. Copies of oneAPI's libraries: the loader finds them first through the environment's ``lib``
folder, so another libsycl, Level Zero loader or MKL is loaded than the one of the build (facts: the list that
Argonne's Aurora build scripts remove by force). conda's ``mkl-static`` depends on such copies: static MKL
comes from pip, as in a virtual environment.

The environment's Python loads the environment's libstdc++ first. One that is older than what the GPU driver
was built with makes the Level Zero driver fail to load, and torch then reports no XPU (known failures of
family A-conda-or-mixed-libstdcxx).
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from xpubuild.artifacts.elf import is_elf, read_shared_object
from xpubuild.engine.process import query
from xpubuild.engine.redact import Redactor
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import (
    AuditError,
    FetchError,
    RecipeError,
    ToolchainError,
    UnsatisfiableError,
    XpuBuildError,
)
from xpubuild.frozen import frozen
from xpubuild.supply.conda.lockfile import (
    PLATFORM,
    VIRTUAL,
    CondaLock,
    CondaPackage,
    read_lock,
    without_credentials,
    write_lock,
)

# Harmless, and needed by python itself: ld_impl (only the linker, never on PATH under its plain name),
# libgcc, libgomp, libstdcxx without -devel.
_COMPILER = re.compile(
    r"(gcc|gxx|gfortran|clang|clangxx|dpcpp|icx|icpx)(_impl)?(_linux-64|-\d+)?|"
    r"(c|cxx|fortran|dpcpp)-compiler|compilers|sysroot_linux-64|kernel-headers_linux-64|"
    r"binutils(_impl)?(_linux-64)?|lib(gcc|stdcxx)-devel_linux-64|compiler-rt(_linux-64)?|lld|llvm-tools"
)
_SHADOW = re.compile(
    r"mkl|mkl-devel|mkl-dpcpp|mkl-service|mkl_fft|mkl_random|mkl_umath|onemkl-sycl-[a-z]+|onemkl-devel(-[a-z]+)?|"
    r"tbb|tbb-devel|tcm|tcmlib|umf|(lib)?umf-devel|"
    r"intel-openmp|intel-sycl-rt|intel-opencl-rt|intel-cmplr-li[bc]-(rt|ur)|intel-fortran-rt|"
    r"dpcpp-cpp-rt|dpcpp_cpp_rt|dpcpp-llvm-spirv|intel-gpu-ocl-icd-system|intelpython\d*(_core|_full)?|"
    r"intel-pti|oneccl(-devel)?|impi[-_](rt|devel)|mpich|openmpi|level-zero(-devel)?|"
    r"intel-compute-runtime|intel-graphics-compiler|onednn(-[a-z-]+)?|mkl-dnn|libhwloc-intel"
)


STDLIB = "libstdc++.so.6"
#: Where distributions have the driver and the C++ library; also those of the host's report.
FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "usr/local/lib64", "lib64")
#: The Level Zero driver and loader: what fails to load beside an older libstdc++ (known failures, family A).
DRIVER = ("libze_intel_gpu.so.1*", "libze_loader.so.1*")
_VERSION = re.compile(r"GLIBCXX_(\d+(?:\.\d+)*)")


def kind_of(name: str) -> str | None:
    """Return why a package harms a build, in words; None for a harmless one."""
    if _COMPILER.fullmatch(name):
        return "it contains a compiler, linker or C library headers besides those of the host"
    if _SHADOW.fullmatch(name):
        return "its libraries would be found before those of oneAPI and the driver"
    return None


def refuse(packages: Sequence[CondaPackage]) -> None:
    """Refuse a lock with a harmful package in it, whoever wrote it.

    Raises:
        UnsatisfiableError: there is one.
    """
    for package in packages:
        if (why := kind_of(package.name)) is None:
            continue
        askers = sorted(item.name for item in packages if package.name in item.dependencies)
        raise UnsatisfiableError(
            f"the conda package {package.title} must not be in an environment that builds for XPU",
            why=f"{why} (required by {', '.join(askers)})" if askers else why,
            fix="remove the package that requires it from toolchain.conda.packages, or install that with pip"
            " or from the system; compilers come from the host, SYCL from oneAPI, static MKL from pip",
            evidence={"package": package.name, "through": askers},
        )


@frozen
class CxxNeed:
    """The newest symbol version (``GLIBCXX_3.4.30``) that this machine needs, and the file that needs it."""

    version: str
    source: str


def glibcxx(name: str) -> tuple[int, ...]:
    """Return ``GLIBCXX_3.4.30`` as numbers; empty for another name."""
    match = _VERSION.fullmatch(name)
    return tuple(map(int, match[1].split("."))) if match else ()


def newest(names: Iterable[str]) -> str | None:
    """Return the newest of GLIBCXX symbol versions; None where there is none."""
    return max(filter(glibcxx, names), key=glibcxx, default=None)


def machine_need(root: Path = Path("/")) -> CxxNeed | None:
    """Return what an environment's libstdc++ must have; None where nothing can be read.

    It must satisfy the driver, and have what the system's has: the host's compiler links against that.
    Files that cannot be read say nothing.
    """
    return max(_needs(root), key=lambda need: glibcxx(need.version), default=None)


def _needs(root: Path) -> Iterator[CxxNeed]:
    for pattern in (*DRIVER, STDLIB):
        paths = (path for folder in FOLDERS for path in sorted((root / folder).glob(pattern)))
        for path in filter(is_elf, paths):
            try:
                found = read_shared_object(path)
            except AuditError:
                continue
            names = found.versions_defined if pattern == STDLIB else found.versions_needed.get(STDLIB, ())
            if version := newest(names):
                yield CxxNeed(version, str(path))


def provided(library: Path) -> str | None:
    """Return the newest symbol version that a libstdc++ has.

    Raises:
        AuditError: it cannot be read.
    """
    return newest(read_shared_object(library).versions_defined)


_SCRIPT = Path(__file__).with_name("rattler_child.py")
#: Repository data of a large channel has 50 MB and more.
_DEADLINE_S = 1800.0


@frozen
class CondaLocker:
    """The paths of conda-lock, and of the conda, mamba or micromamba that it runs."""

    program: str
    conda: str


def find_conda_lock(environment: Mapping[str, str]) -> CondaLocker | None:
    """Look for conda-lock and what it needs; nothing is run.

    micromamba is taken first: it needs no Python of its own. An activated conda names its program in
    MAMBA_EXE or CONDA_EXE, also where it is a shell function.
    """
    path = environment.get("PATH", "")
    names = ("micromamba", "mamba", "conda", environment.get("MAMBA_EXE"), environment.get("CONDA_EXE"))
    conda = next(filter(None, (shutil.which(name, path=path) for name in names if name)), None)
    beside = Path(sys.executable).with_name("conda-lock")
    program = shutil.which(str(beside)) or shutil.which("conda-lock", path=path)
    return CondaLocker(program, conda) if program and conda else None


def missing(doing: str) -> ToolchainError:
    """Return the error for a machine that can neither solve nor install."""
    return ToolchainError(
        f"conda packages cannot be {doing} on this machine",
        why="py-rattler is not installed in xpubuild's environment",
        fix="install xpubuild's extra 'conda'; then no conda, mamba or micromamba is needed",
        commands=(shlex.join([sys.executable, "-m", "pip", "install", "py-rattler"]),),
    )


def rattler_failed(why: str) -> ToolchainError:
    """Return the error for an unexpected failure of py-rattler."""
    fix = "run the same command again; if it fails again, report it with this message"
    return ToolchainError("py-rattler failed", why=why or "py-rattler printed nothing", fix=fix)


def ask_rattler(job: Mapping[str, Any], doing: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer of ``rattler_child.py``: ``ok``, or ``error`` (a kind) and ``message``.

    Raises:
        ToolchainError: py-rattler is missing, or ended without an answer.
    """
    argv, given = [sys.executable, "-I", str(_SCRIPT)], json.dumps(job).encode()
    result = query(argv, env=environment, deadline_s=_DEADLINE_S, stdin=given)
    try:
        answer = json.loads(result.stdout)
    except ValueError:
        printed = [line for line in result.stderr.splitlines() if line.strip()]
        late = f"it timed out after {_DEADLINE_S / 60:.0f} minutes" if result.timed_out else ""
        raise rattler_failed(late or (printed[-1] if printed else f"status {result.returncode}")) from None
    if answer.get("error") == "missing":
        raise missing(doing)
    return dict(answer)


@frozen
class Wanted:
    """What is asked for, and of which channels."""

    specs: tuple[str, ...]
    channels: tuple[str, ...]

    def content_hash(self) -> str:
        """Return a hash of the request."""
        question = [sorted(self.specs), list(self.channels), VIRTUAL]
        return hashlib.sha256(json.dumps(question).encode()).hexdigest()


def make_lock(
    wanted: Wanted, locker: CondaLocker | None, *, environment: Mapping[str, str], cache: Path,
    report: Callable[[str], None],
) -> str:  # fmt: skip
    """Solve and return the text of a ``conda-lock.yml``.

    Raises:
        RecipeError: a specification or channel is invalid.
        UnsatisfiableError: no solution, or one with a harmful package.
        FetchError: a channel cannot be reached, or has no such folder.
        ToolchainError: py-rattler is missing, or failed.
    """
    cache.mkdir(parents=True, exist_ok=True)
    packages = None
    if locker is not None:
        report(f"conda-lock solves with {Path(locker.conda).name}")
        with scratch_folder("solve", cache) as scratch:
            packages = _by_conda_lock(wanted, locker, environment, scratch, report)
    if packages is None:
        report("py-rattler solves")
        packages = _by_rattler(wanted, environment, cache)
    refuse(packages)
    return write_lock(CondaLock(packages, wanted.channels, wanted.content_hash()))


def _by_rattler(wanted: Wanted, environment: Mapping[str, str], cache: Path) -> tuple[CondaPackage, ...]:
    job = {
        "action": "solve", "channels": list(wanted.channels),
        "specs": list(wanted.specs), "platform": PLATFORM, "virtual": VIRTUAL,
        "cache": str(cache / "repodata"),
    }  # fmt: skip
    answer = ask_rattler(job, "solved", environment)
    if "ok" not in answer:
        raise _failed(answer["error"], wanted, Redactor()(str(answer["message"])).strip())
    return tuple(_package(record, wanted) for record in answer["ok"])


def _package(record: Mapping[str, Any], wanted: Wanted) -> CondaPackage:
    filename, sha256, md5 = str(record["filename"]), record["sha256"], record["md5"]
    if not sha256 or not md5:
        why = f"the channel has no sha256 or md5 for {filename}, so it could not be checked"
        raise _failed("unreachable", wanted, why)
    # Version only, in conda-lock's form: the lock does not depend on the solver.
    depends = (str(item).partition(" ") for item in record["depends"])
    needs = {name: text.strip().partition(" ")[0].removeprefix("==") for name, _, text in depends}
    url = without_credentials(record["url"])
    return CondaPackage(record["name"], record["version"], record["build"], filename, url, sha256, md5, needs)


def _by_conda_lock(
    wanted: Wanted, locker: CondaLocker, environment: Mapping[str, str], scratch: Path,
    report: Callable[[str], None],
) -> tuple[CondaPackage, ...] | None:  # fmt: skip
    """Return the solution of conda-lock; None where it has none: py-rattler then says why there is none."""
    request, virtual, lock = (scratch / name for name in ("environment.yml", "virtual.yml", "conda-lock.yml"))
    packages = {name: version if build == "0" else f"{version} {build}" for name, version, build in VIRTUAL}
    asked = {"channels": [*wanted.channels], "dependencies": [*wanted.specs], "platforms": [PLATFORM]}
    for path, document in ((request, asked), (virtual, {"subdirs": {PLATFORM: {"packages": packages}}})):
        path.write_text(yaml.safe_dump(document, allow_unicode=True), "utf-8")
    argv = [
        locker.program, "lock", "--conda", locker.conda, "--file", str(request), "--lockfile", str(lock),
        "--platform", PLATFORM, "--virtual-package-spec", str(virtual), "--log-level", "ERROR",
    ]  # fmt: skip
    # Its cache is below that of xpubuild, so that nothing is left in the user's home.
    env = {**environment, "XDG_CACHE_HOME": str(scratch / "cache"), "CONDA_OVERRIDE_CUDA": ""}
    result = query(argv, env=env, cwd=scratch, deadline_s=_DEADLINE_S)
    if result.ok and lock.is_file():
        return read_lock(lock.read_text("utf-8"), name="the lock that conda-lock wrote").packages
    lines = [line for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    report(f"conda-lock has no solution: {Redactor()((lines or ['no message'])[0])}")
    return None


def _failed(kind: str, wanted: Wanted, why: str) -> XpuBuildError:
    """Return the error for one of the kinds that ``rattler_child`` knows."""
    kinds: dict[str, tuple[type[XpuBuildError], str]] = {
        "unsatisfiable": (UnsatisfiableError, "the recipe's conda packages cannot be installed together"),
        "unreachable": (FetchError, "a conda channel could not be read"),
        "invalid": (RecipeError, "the recipe has invalid conda specifications"),
    }
    if kind not in kinds:
        return rattler_failed(why)
    error, what = kinds[kind]
    return error(
        what,
        why=why,
        fix="correct toolchain.conda.packages of the recipe ('cmake >=3.27,<4'), use other channels with"
        " --conda-channel, or check the proxy (HTTPS_PROXY)",
        evidence={"packages": list(wanted.specs), "channels": list(wanted.channels)},
    )

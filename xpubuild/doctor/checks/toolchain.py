"""Compilers and build tools: each is run, or searched for in the build's search path."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from xpubuild.doctor.checks.shadow_libstdcxx import held_up, instead
from xpubuild.doctor.fixes import install_command, install_oneapi_packages
from xpubuild.doctor.gcc import another_gcc
from xpubuild.doctor.kit import BUILD, Fix, Look, Outcome, check, finding, ok, skip, todo, warn
from xpubuild.doctor.look.toolkits import compiler_of, for_cpu, needs_of, selection, version_of
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import probe
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.machine.compilers import choose_compilers
from xpubuild.machine.oneapi_constraint import specifier
from xpubuild.machine.oneapi_paths import is_dir, is_file
from xpubuild.machine.readers import UNKNOWN
from xpubuild.machine.tools import CompilerFacts, locate, probe_tool
from xpubuild.recipe.versions import fits

if TYPE_CHECKING:
    from xpubuild.recipe.model import Needs

#: The requirement of source.git; importing that module takes longer than the whole check.
OLDEST_GIT = (2, 32)
# The words by which upstream finds the version (PyTorch, cmake/Modules/FindSYCLToolkit.cmake).
_STATED = re.compile(r"Intel\(R\) .*Compiler (\d+\.\d+\.\d+)")
_DEADLINE_S = 8.0
_SYNTAX_ONLY = ("-fsycl", "-fsyntax-only", "-x", "c++", "/dev/null")


@frozen
class Icpx:
    """One icpx: where it is, and how it was found."""

    path: Path
    origin: str


def _candidates(look: Look) -> Iterator[Icpx]:
    root = look.environ.get("SYCL_ROOT") or look.environ.get("CMPLR_ROOT", "")
    # A folder that is gone is what oneapi.sourced is about.
    if root.startswith("/") and is_dir(Path(root)):
        yield Icpx(Path(root) / "bin" / "icpx", "CMPLR_ROOT")
    on_path = locate(("icpx",), look.environ.get("PATH", "")).get("icpx")
    if on_path:
        yield Icpx(Path(on_path), "PATH")
    chosen = compiler_of(look)
    if chosen is not None:
        yield Icpx(chosen.path / "bin" / "icpx", "the installation that a build would use")


@check(
    "toolchain.icpx",
    profiles=BUILD,
    needs="oneapi.installed",
    live=True,
    families="C-oneapi-not-found-silent-cpu-build G-pin-mismatch-or-broken-main",
    deadline_s=20.0,
)
def toolchain_icpx(look: Look) -> Outcome:
    """The SYCL compiler icpx runs.

    Runs `icpx --version` with the compiler that a build would use, with the one in `CMPLR_ROOT` and
    with the one on `PATH`, each in a subprocess with a timeout, and checks the syntax of an empty
    SYCL source. It is not enough that the file exists: the most common problem is a missing shared
    library. PyTorch reads the version from this output and continues without XPU if it cannot. A
    compiler that is not Intel's own (the open-source DPC++) prints other text.
    """
    if for_cpu(look):
        return skip("the recipe builds for the CPU and needs no SYCL compiler")
    found = {item.path.resolve(): item for item in reversed([*_candidates(look)])}
    if not found:
        return skip("no oneAPI compiler is installed")
    wanted = needs_of(look)
    versions = {}
    for item in found.values():
        problem, version = _ask(item, look)
        if problem:
            by_hand = todo(
                "run it manually; the usual cause is a missing library or a partly removed installation",
                shlex.join([str(item.path), "--version"]),
                f"ldd {shlex.quote(str(item.path))}",
            )
            return finding(f"{item.path} ({item.origin}) {problem}", by_hand, path=str(item.path))
        versions[str(item.path)] = version
    chosen = compiler_of(look)
    own = versions.get(str(chosen.path / "bin" / "icpx")) if chosen else None
    if wanted and own and not specifier(wanted.versions).contains(Version(own), prereleases=True):
        detail = f"icpx is {own}, the recipe needs {wanted.versions}"
        return finding(detail, todo("install the release that the recipe requires"), versions=versions)
    return _read_sycl(look, next(iter(found.values())), versions)


def _read_sycl(look: Look, item: Icpx, versions: dict[str, str]) -> Outcome:
    argv = [str(item.path), *_SYNTAX_ONLY]
    result = probe(argv, env=_environment(item, look), deadline_s=_DEADLINE_S)
    if result.ok:
        return ok(f"icpx {', '.join(dict.fromkeys(versions.values()))} runs", versions=versions)
    said = (result.stderr or result.stdout).strip()[-300:] or "it printed nothing"
    detail = f"{item.path} reports its version, but cannot parse an empty SYCL source: {said}"
    return warn(detail, todo("run it manually", shlex.join(argv)), versions=versions)


def _environment(item: Icpx, look: Look) -> dict[str, str]:
    """Return the allow-listed environment, with the libraries that the compiler's own script would add."""
    return {**base_environment(look.environ), "LD_LIBRARY_PATH": str(item.path.parent.parent / "lib")}


def _ask(item: Icpx, look: Look) -> tuple[str, str]:
    """Return what is wrong with a compiler, and the version that it states."""
    if not is_file(item.path):
        return "does not exist", ""
    try:
        result = probe([str(item.path), "--version"], env=_environment(item, look), deadline_s=_DEADLINE_S)
    except XpuBuildError as error:
        return f"cannot be started: {error.why or error.what}", ""
    stated = _STATED.search(result.stdout)
    if result.timed_out:
        return f"timed out after {_DEADLINE_S:g} s", ""
    said = (result.stderr or result.stdout).strip()[-300:] or "no output"
    if result.returncode != 0:
        return f"exited with code {result.returncode}: {said}", ""
    if stated is None:
        return f"is not Intel's oneAPI compiler: {said}", ""
    return "", stated[1]


@check(
    "toolchain.sycl_cmake",
    profiles=BUILD,
    needs="oneapi.installed",
    families="C-oneapi-not-found-silent-cpu-build P-missing-build-component N-run-time-jit-headers",
)
def toolchain_sycl_cmake(look: Look) -> Outcome:
    """CMake can find SYCL and PTI.

    PyTorch's `FindSYCLToolkit.cmake` uses `SYCL_ROOT`, or `CMPLR_ROOT`, or (from 2.8)
    `/opt/intel/oneapi/compiler/latest`, and needs `bin/icx`, `include/sycl/sycl.hpp` and
    `lib/libsycl.so` there. Without `bin/icpx` beside it, CMake prints nothing (2.6, 2.13, 2.14) or an error
    about `string sub-command REGEX` (2.8). This check searches for these files in the folder from the
    environment and in the one that a build would use. For a recipe that sources `pti` it also searches for
    `PtiConfig.cmake`, which Kineto's XPU plugin needs.
    """
    if for_cpu(look):
        return skip("the recipe builds for the CPU and needs no SYCL toolkit")
    places = dict(_toolkits(look))
    if not places:
        return skip("no oneAPI compiler is installed")
    for folder, origin in places.items():
        missing = [name for name, there in _toolkit_files(folder).items() if not there]
        if missing:
            detail = f"{look.shown(folder)} ({origin}) lacks {', '.join(missing)}"
            return finding(detail, _reinstall(look), missing=missing, folder=look.shown(folder))
    pti = _pti(look)
    return pti or ok(f"complete in {', '.join(look.shown(folder) for folder in places)}")


def _pti(look: Look) -> Outcome | None:
    chosen = selection(look)
    pti = None if isinstance(chosen, XpuBuildError) else chosen.get("pti")
    if pti is None or any(pti.path.glob("lib*/cmake/pti/PtiConfig.cmake")):
        return None
    detail = f"{look.shown(pti.path)} has no lib/cmake/pti/PtiConfig.cmake"
    fix = todo("install PTI's development files", *install_oneapi_packages(look, "intel-pti-dev"))
    return finding(detail, fix, folder=look.shown(pti.path))


def _toolkits(look: Look) -> Iterator[tuple[Path, str]]:
    chosen = compiler_of(look)
    if chosen is not None:
        yield chosen.path, "the installation that a build would use"
    for name in ("SYCL_ROOT", "CMPLR_ROOT"):
        value = look.environ.get(name, "")
        if value.startswith("/"):
            if is_dir(look.path(value)):
                yield look.path(value).resolve(), name
            return


def _toolkit_files(folder: Path) -> dict[str, bool]:
    return {
        "bin/icx": is_file(folder / "bin" / "icx"),
        "bin/icpx": is_file(folder / "bin" / "icpx"),
        "include/sycl/sycl.hpp": is_file(folder / "include" / "sycl" / "sycl.hpp"),
        "lib/libsycl.so": is_dir(folder / "lib") and is_file(folder / "lib" / "libsycl.so"),
    }


def _reinstall(look: Look) -> Fix:
    chosen = compiler_of(look)
    line = ".".join(version_of(chosen.version).split(".")[:2]) if chosen else ""
    name = f"intel-oneapi-compiler-dpcpp-cpp-{line}" if line else "intel-oneapi-compiler-dpcpp-cpp"
    return todo(
        "reinstall the compiler component, or set SYCL_ROOT and CMPLR_ROOT to a complete one",
        *install_oneapi_packages(look, name),
    )


@check("toolchain.gcc", profiles=BUILD, families="J-host-compiler-version G-pin-mismatch-or-broken-main")
def toolchain_gcc(look: Look) -> Outcome:
    """The host compiler is compatible.

    The compilers are those in `CC` and `CXX`, or `gcc` and `g++` on `PATH`. They are compared with the
    recipe: its version range, versions it rejects (GCC 15 up to 2.8: the bundled gloo lacks an
    include), and features that are disabled without an error (flash attention on XPU needs GCC 13 from
    2.10 on), which is a warning. A host compiler other than GCC silently disables the XPU kernels, so
    it is a failure. GCC 12.x with AVX-512 kernels has had internal compiler errors. Without a recipe,
    the check only tests that there is a C++ compiler.
    """
    needs = look.recipe.recipe.needs if look.recipe else None
    compiler = _compiler(look, needs)
    if isinstance(compiler, Outcome):
        return compiler
    told = f"{compiler.kind} {compiler.version} ({compiler.path})"
    if look.recipe is None:
        return ok(told, kind=compiler.kind, version=compiler.version)
    if compiler.kind == "gcc":
        for refusal in look.recipe.recipe.refuses:
            if set(refusal.when) == {"gcc"} and fits(compiler.version, refusal.when["gcc"]) == "yes":
                return finding(f"GCC {compiler.version}: {refusal.why}", another_gcc(look))
    lost = _losses(look, compiler)
    if lost:
        newer = another_gcc(look)
        fix = todo(f"accept this, or build with a newer GCC: {newer.summary}", *newer.commands)
        return warn(f"GCC {compiler.version}: the build will lack {', '.join(lost)}", fix, lost=lost)
    return ok(told, kind=compiler.kind, version=compiler.version)


def _compiler(look: Look, needs: Needs | None) -> CompilerFacts | Outcome:
    wanted = (needs.gcc or ("" if needs.host_compiler == "GNU" else None)) if needs else None
    if look.live and any(look.environ.get(name) for name in ("CC", "CXX")):
        try:
            return choose_compilers(wanted, caller=look.environ, system=look.host.os).cxx
        except XpuBuildError as error:
            return finding(f"{error.what}: {error.why}", todo(error.fix, *error.commands))
    facts = next((item for item in look.host.compilers if item.name == "g++"), None)
    if facts is None:
        return _without(look)
    if wanted is not None and facts.kind not in ("gcc", UNKNOWN):
        detail = f"g++ on PATH is {facts.kind} {facts.version}, but the recipe needs GCC"
        return finding(detail, another_gcc(look))
    if wanted and fits(facts.version, wanted) == "no":
        detail = f"{facts.path} is GCC {facts.version}, but the recipe needs GCC {wanted}"
        return finding(detail, another_gcc(look), found=facts.version, wanted=wanted)
    return facts


def _without(look: Look) -> Outcome:
    if not look.live:
        return skip("the version of a compiler in an image cannot be read from files")
    fix = todo(
        "install a C and C++ compiler",
        *install_command(look, debian=["gcc", "g++"], rhel=["gcc", "gcc-c++"], suse=["gcc", "gcc-c++"]),
    )
    if look.recipe is None and not look.to_build:
        return warn("no g++ on PATH; builds and torch.compile need one", fix)
    return finding("no g++ on PATH", fix)


def _losses(look: Look, compiler: CompilerFacts) -> list[str]:
    recipe = look.wanted
    if recipe is None or compiler.kind != "gcc":
        return []
    return [
        loss.feature
        for loss in recipe.loses
        if "gcc" in loss.when
        and recipe.target in loss.targets
        and fits(compiler.version, loss.when["gcc"]) == "yes"
    ]


@check(
    "toolchain.cmake",
    severity="warn",
    profiles=BUILD,
    live=True,
    recipe=True,
    families="M-python-build-tools C-oneapi-not-found-silent-cpu-build",
)
def toolchain_cmake(look: Look) -> Outcome:
    """The CMake on PATH is compatible.

    `xpubuild install` installs its own pinned CMake into the workspace, so a CMake on `PATH` is not
    used and a wrong version is a warning. It matters for manual builds: 4.x rejects the bundled
    protobuf of 2.6 and older, versions before 3.27 are too old from 2.9 on, and versions before 3.20.5
    cannot read oneAPI's package files. A CMake from pip does not search a conda prefix, one from conda
    does.
    """
    wanted = look.recipe.recipe.needs.cmake if look.recipe else None
    facts = next((item for item in look.host.tools if item.name == "cmake"), None)
    if facts is None:
        return ok("none on PATH; builds install their own")
    if facts.version == UNKNOWN:
        if told := held_up(look, facts.path):
            return instead(look, told)
        fix = todo("run it manually, or remove it from PATH", f"{shlex.quote(facts.path)} --version")
        return finding(f"{facts.path} does not report its version", fix)
    if fits(facts.version, wanted) != "no":
        return ok(f"CMake {facts.version} ({facts.path})", version=facts.version)
    fix = todo(
        "xpubuild install is not affected; for a manual build, install a compatible version",
        f"python -m pip install 'cmake{wanted}'",
    )
    detail = f"CMake on PATH is {facts.version}, the recipe needs {wanted}; xpubuild installs its own"
    return finding(detail, fix, version=facts.version, wanted=wanted)


@check("toolchain.ninja", severity="warn", profiles=BUILD, live=True, families="M-python-build-tools")
def toolchain_ninja(look: Look) -> Outcome:
    """The ninja on PATH runs.

    `xpubuild install` installs its own ninja. A ninja on `PATH` that does not run (a wrapper of a
    removed Python, a missing library) breaks manual builds and `torch.utils.cpp_extension`.
    """
    facts = next((item for item in look.host.tools if item.name == "ninja"), None)
    if facts is None:
        return ok("none on PATH; builds install their own")
    if facts.version == UNKNOWN:
        if told := held_up(look, facts.path):
            return instead(look, told)
        fix = todo("reinstall it, or remove it from PATH", f"{shlex.quote(facts.path)} --version")
        return finding(f"{facts.path} does not report its version", fix)
    return ok(f"ninja {facts.version} ({facts.path})", version=facts.version)


@check(
    "toolchain.git",
    profiles=BUILD,
    live=True,
    families="H-torch-xpu-ops-and-submodule-checkout AH-missing-system-package",
)
def toolchain_git(look: Look) -> Outcome:
    """git is new enough.

    Sources are fetched as pinned commits with git, and PyTorch's CMake runs git itself while it
    configures (torch-xpu-ops, oneDNN). xpubuild does not build from tarballs, because they have no
    submodules.
    """
    path = locate(("git",), look.environ.get("PATH", "")).get("git")
    install = todo("install git", *install_command(look, debian=["git"], rhel=["git"], suse=["git"]))
    if path is None:
        return finding("git is not on PATH", install)
    version = probe_tool(path, base_environment(look.environ)).version
    if version == UNKNOWN:
        return finding(f"{path} does not report its version", install)
    oldest = ".".join(map(str, OLDEST_GIT))
    if fits(version, f">={oldest}") == "no":
        return finding(f"git is {version}, but {oldest} or newer is needed", install, version=version)
    return ok(f"git {version}", version=version)

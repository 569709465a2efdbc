"""Compilers and build tools: each is run, or searched for in the build's search path."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.fixes import distribution, install_command, install_oneapi_packages
from xpubuild.doctor.kit import BUILD, Fix, Look, Outcome, check, commas, finding, ok, skip, todo, warn
from xpubuild.doctor.look.compatible import host_compiler, judged, lost_with_gcc
from xpubuild.doctor.look.toolkits import compiler_of, for_cpu, needs_of, selection
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import probe
from xpubuild.errors import XpuBuildError
from xpubuild.machine.compilers import locate, probe_tool
from xpubuild.machine.oneapi_bundles import compiler_version
from xpubuild.machine.readers import UNKNOWN, is_dir, is_file
from xpubuild.machine.versions import fits

#: The requirement of source.git; importing that module takes longer than the whole check.
OLDEST_GIT = (2, 32)
# The words by which upstream finds the version (PyTorch, cmake/Modules/FindSYCLToolkit.cmake).
_STATED = re.compile(r"Intel\(R\) .*Compiler (\d+\.\d+\.\d+)")
_DEADLINE_S = 8.0
_OF_BUILD = "the installation that a build would use"


def _candidates(look: Look) -> Iterator[tuple[Path, str]]:
    """Yield each icpx and how it was found."""
    root = look.environ.get("SYCL_ROOT") or look.environ.get("CMPLR_ROOT", "")
    # A folder that is gone is what oneapi.sourced is about.
    if root.startswith("/") and is_dir(Path(root)):
        yield Path(root) / "bin" / "icpx", "CMPLR_ROOT"
    on_path = locate(("icpx",), look.environ.get("PATH", "")).get("icpx")
    if on_path:
        yield Path(on_path), "PATH"
    chosen = compiler_of(look)
    if chosen is not None:
        yield chosen.path / "bin" / "icpx", _OF_BUILD


@check("toolchain.icpx", profiles=BUILD, needs="oneapi.installed", live=True, deadline_s=20)
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
    found = {path.resolve(): (path, origin) for path, origin in reversed([*_candidates(look)])}
    if not found:
        return skip("no oneAPI compiler is installed")
    versions = {}
    for path, origin in found.values():
        problem, version = _ask(path, look)
        if problem:
            by_hand = todo(
                "run it manually; the usual cause is a missing library or a partly removed installation",
                shlex.join([str(path), "--version"]),
                f"ldd {shlex.quote(str(path))}",
            )
            return finding(f"{path} ({origin}) {problem}", by_hand, path=str(path))
        versions[str(path)] = version
    chosen, wanted = compiler_of(look), needs_of(look)
    own = versions.get(str(chosen.path / "bin" / "icpx")) if chosen else None
    if wanted and own and fits(own, wanted.versions) == "no":
        detail = f"icpx is {own}, the recipe needs {wanted.versions}"
        return finding(detail, todo("install the release that the recipe requires"), versions=versions)
    path, _ = next(iter(found.values()))
    argv = [str(path), "-fsycl", "-fsyntax-only", "-x", "c++", "/dev/null"]
    result = probe(argv, env=_environment(path, look), deadline_s=_DEADLINE_S)
    if result.ok:
        return ok(f"icpx {commas(dict.fromkeys(versions.values()))} runs", versions=versions)
    printed = (result.stderr or result.stdout).strip()[-300:] or "it printed nothing"
    detail = f"{path} reports its version, but cannot parse an empty SYCL source: {printed}"
    return warn(detail, todo("run it manually", shlex.join(argv)), versions=versions)


def _environment(path: Path, look: Look) -> dict[str, str]:
    """Return the allow-listed environment, with the libraries that the compiler's own script would add."""
    return {**base_environment(look.environ), "LD_LIBRARY_PATH": str(path.parent.parent / "lib")}


def _ask(path: Path, look: Look) -> tuple[str, str]:
    """Return what is wrong with a compiler, and the version that it states."""
    if not is_file(path):
        return "does not exist", ""
    try:
        result = probe([str(path), "--version"], env=_environment(path, look), deadline_s=_DEADLINE_S)
    except XpuBuildError as error:
        return f"cannot be started: {error.why or error.what}", ""
    if result.timed_out:
        return f"timed out after {_DEADLINE_S:g} s", ""
    printed = (result.stderr or result.stdout).strip()[-300:] or "no output"
    if result.returncode != 0:
        return f"exited with code {result.returncode}: {printed}", ""
    stated = _STATED.search(result.stdout)
    return ("", stated[1]) if stated else (f"is not Intel's oneAPI compiler: {printed}", "")


@check("toolchain.sycl_cmake", profiles=BUILD, needs="oneapi.installed")
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
        missing = [name for name in _TOOLKIT_FILES if not is_file(folder / name)]
        if missing:
            chosen = compiler_of(look)
            line = ".".join(["", *compiler_version(chosen.version).split(".")[:2]]) if chosen else ""
            name = f"intel-oneapi-compiler-dpcpp-cpp{line.replace('.', '-', 1)}"
            fix = todo(
                "reinstall the compiler component, or set SYCL_ROOT and CMPLR_ROOT to a complete one",
                *install_oneapi_packages(look, name),
            )
            detail = f"{look.shown(folder)} ({origin}) lacks {commas(missing)}"
            return finding(detail, fix, missing=missing, folder=look.shown(folder))
    selected = selection(look)
    pti = None if isinstance(selected, XpuBuildError) else selected.get("pti")
    if pti is not None and not any(pti.path.glob("lib*/cmake/pti/PtiConfig.cmake")):
        fix = todo("install PTI's development files", *install_oneapi_packages(look, "intel-pti-dev"))
        place = look.shown(pti.path)
        return finding(f"{place} has no lib/cmake/pti/PtiConfig.cmake", fix, folder=place)
    return ok(f"complete in {commas(map(look.shown, places))}")


_TOOLKIT_FILES = ("bin/icx", "bin/icpx", "include/sycl/sycl.hpp", "lib/libsycl.so")


def _toolkits(look: Look) -> Iterator[tuple[Path, str]]:
    chosen = compiler_of(look)
    if chosen is not None:
        yield chosen.path, _OF_BUILD
    named = ((name, look.environ.get(name, "")) for name in ("SYCL_ROOT", "CMPLR_ROOT"))
    name, value = next(((name, value) for name, value in named if value.startswith("/")), ("", ""))
    if name and is_dir(look.path(value)):
        yield look.path(value).resolve(), name


@check("toolchain.gcc", profiles=BUILD)
def toolchain_gcc(look: Look) -> Outcome:
    """The host compiler is compatible.

    The compilers are those in `CC` and `CXX`, or `gcc` and `g++` on `PATH`. They are compared with the
    recipe: its version range, versions it rejects (GCC 15 up to 2.8: the bundled gloo lacks an
    include), and features that are disabled without an error (flash attention on XPU needs GCC 13 from
    2.10 on), which is a warning. A host compiler other than GCC silently disables the XPU kernels, so
    it is a failure. GCC 12.x with AVX-512 kernels has had internal compiler errors. Without a recipe,
    the check only tests that there is a C++ compiler.
    """
    compiler = host_compiler(look)
    if isinstance(compiler, XpuBuildError):
        return finding(f"{compiler.what}: {compiler.why}", todo(compiler.fix, *compiler.commands))
    if compiler is None:
        return _without(look)
    name = f"{'GCC' if compiler.kind == 'gcc' else compiler.kind} {compiler.version}"
    against = [item for item in judged(look, "gcc", "host_compiler") if item.answer == "no"]
    if against:
        listed = "; ".join(item.text for item in against)
        return finding(
            f"{compiler.path} is {name}; the recipe: {listed}", another_gcc(look), version=compiler.version
        )
    if look.wanted is not None and (lost := lost_with_gcc(look, look.wanted)):
        newer = another_gcc(look)
        fix = todo(f"accept this, or build with a newer GCC: {newer.summary}", *newer.commands)
        return warn(f"{name}: the build will lack {commas(lost)}", fix, lost=lost)
    return ok(
        f"{compiler.kind} {compiler.version} ({compiler.path})", kind=compiler.kind, version=compiler.version
    )


#: Releases before the first with GCC 13, by the ID of os-release(5).
_WITHOUT_GCC_13 = {"ubuntu": "<23.04", "pop": "<23.04", "linuxmint": "<22", "debian": "<13"}
_TOOLSET = "gcc-toolset-13"


def another_gcc(look: Look) -> Fix:
    """Return how to install a GCC 13 next to the incompatible one, and how to select it for a build.

    Which release has which package is what the package lists of Debian and Ubuntu, and "Using GCC Toolset" in
    the documentation of RHEL 8 and 9, say: a toolset is not on PATH, and its programs have no number.
    """
    system = look.host.os
    named, summary = (
        "export CC=gcc-13 CXX=g++-13",
        "install a GCC that the recipe allows and set CC and CXX to it",
    )
    lacks = fits(system.version, _WITHOUT_GCC_13.get(system.id, "<0")) == "yes"
    if distribution(look) == "rhel":
        # Fedora and Amazon Linux share dnf with RHEL and have no toolset 13; RHEL 10 has GCC 14 as its own.
        lacks = system.id in ("fedora", "amzn") or fits(system.version, "<10") == "no"
        programs = f"/opt/rh/{_TOOLSET}/root/usr/bin"
        named = f"export CC={programs}/gcc CXX={programs}/g++"
    if lacks:
        return todo(
            f"{system.name} has no package of GCC 13: build in a container or on a host that has one"
            " (Debian 13, Ubuntu 24.04, RHEL 9), or set CC and CXX to another GCC that the recipe allows",
            'docker run -it -v "$PWD":/src -w /src debian:13   # in it: apt-get install gcc-13 g++-13',
        )
    packages = {"debian": ("gcc-13", "g++-13"), "rhel": (_TOOLSET,), "suse": ("gcc13", "gcc13-c++")}
    return todo(summary, *install_command(look, **packages), named)


def _without(look: Look) -> Outcome:
    if not look.live:
        return skip("the version of a compiler in an image cannot be read from files")
    rpm = ["gcc", "gcc-c++"]
    fix = todo(
        "install a C and C++ compiler", *install_command(look, debian=["gcc", "g++"], rhel=rpm, suse=rpm)
    )
    if look.recipe is None and not look.to_build:
        return warn("no g++ on PATH; builds and torch.compile need one", fix)
    return finding("no g++ on PATH", fix)


@check("toolchain.cmake", severity="warn", profiles=BUILD, recipe=True, live=True)
def toolchain_cmake(look: Look) -> Outcome:
    """The CMake on PATH is compatible.

    `xpubuild install` installs its own pinned CMake into the workspace, so a CMake on `PATH` is not
    used and a wrong version is a warning. It matters for manual builds: 4.x rejects the bundled
    protobuf of 2.6 and older, versions before 3.27 are too old from 2.9 on, and versions before 3.20.5
    cannot read oneAPI's package files. A CMake from pip does not search a conda prefix, one from conda
    does.
    """
    facts = next((item for item in look.host.tools if item.name == "cmake"), None)
    if facts is None:
        return ok("none on PATH; builds install their own")
    path, version = facts.path, facts.version
    if version == UNKNOWN:
        fix = todo("run it manually, or remove it from PATH", f"{shlex.quote(path)} --version")
        return finding(f"{path} does not report its version", fix)
    wanted = look.wanted.needs.cmake if look.wanted else None
    if fits(version, wanted) != "no":
        return ok(f"CMake {version} ({path})", version=version)
    fix = todo(
        "xpubuild install is not affected; for a manual build, install a compatible version",
        f"python -m pip install 'cmake{wanted}'",
    )
    detail = f"CMake on PATH is {version}, the recipe needs {wanted}; xpubuild installs its own"
    return finding(detail, fix, version=version, wanted=wanted)


@check("toolchain.git", profiles=BUILD, live=True)
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

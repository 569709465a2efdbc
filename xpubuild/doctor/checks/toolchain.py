"""Compilers and build tools: each is run, or looked for where the build would look."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from xpubuild.doctor.context import Context
from xpubuild.doctor.fixes import install_command
from xpubuild.doctor.gcc import another_gcc
from xpubuild.doctor.look.places import inside, shown
from xpubuild.doctor.look.toolkits import compiler_of, for_cpu, needs_of, selection, version_of
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import query
from xpubuild.errors import XpuBuildError
from xpubuild.host.readers import UNKNOWN
from xpubuild.host.tools import CompilerFacts, locate, probe_tool
from xpubuild.oneapi.constraint import specifier
from xpubuild.oneapi.paths import is_dir, is_file
from xpubuild.recipe.fits import fits
from xpubuild.toolchain.compilers import choose_compilers

if TYPE_CHECKING:
    from xpubuild.recipe.model import Needs

#: What source.git asks for; importing that module takes longer than the whole check.
OLDEST_GIT = (2, 32)
# The words by which upstream finds the version (PyTorch, cmake/Modules/FindSYCLToolkit.cmake).
_STATED = re.compile(r"Intel\(R\) .*Compiler (\d+\.\d+\.\d+)")
_DEADLINE_S = 8.0
_SYNTAX_ONLY = ("-fsycl", "-fsyntax-only", "-x", "c++", "/dev/null")


@dataclass(frozen=True)
class Icpx:
    """One icpx: where it is, and how it was found."""

    path: Path
    origin: str


def _candidates(context: Context) -> Iterator[Icpx]:
    root = context.environ.get("SYCL_ROOT") or context.environ.get("CMPLR_ROOT", "")
    # A folder that is gone is what oneapi.sourced is about.
    if root.startswith("/") and is_dir(Path(root)):
        yield Icpx(Path(root) / "bin" / "icpx", "CMPLR_ROOT")
    on_path = locate(("icpx",), context.environ.get("PATH", "")).get("icpx")
    if on_path:
        yield Icpx(Path(on_path), "PATH")
    chosen = compiler_of(context)
    if chosen is not None:
        yield Icpx(chosen.path / "bin" / "icpx", "the installation that a build would take")


class ToolchainIcpx(Check):
    """icpx starts, states its version, and reads SYCL."""

    id = "toolchain.icpx"
    title = "The SYCL compiler icpx runs"
    needs = ("oneapi.installed",)
    profiles = frozenset({"build"})
    live = True
    deadline_s = 20.0
    families = ("C-oneapi-not-found-silent-cpu-build", "G-pin-mismatch-or-broken-main")
    explanation = """\
Runs `icpx --version` of the compiler that a build would take, of the one in `CMPLR_ROOT` and of the one
on `PATH`, each in a child with a deadline, and lets it read an empty SYCL source. A file of that name
proves nothing: the usual break is a missing shared library. PyTorch reads the version from this very
output and goes on without XPU where it cannot; a compiler that is not Intel's own (the open-source
DPC++) states another text.
"""

    def run(self, context: Context) -> Outcome:
        if for_cpu(context):
            return self.skip("the recipe is built for the CPU and needs no SYCL compiler")
        found = {item.path.resolve(): item for item in reversed([*_candidates(context)])}
        if not found:
            return self.skip("there is no oneAPI compiler to run")
        wanted = needs_of(context)
        versions = {}
        for item in found.values():
            problem, version = _ask(item, context)
            if problem:
                by_hand = Fix(
                    "run it by hand; the usual cause is a missing library or a half-removed installation",
                    (shlex.join([str(item.path), "--version"]), f"ldd {shlex.quote(str(item.path))}"),
                )
                return self.found(f"{item.path} ({item.origin}) {problem}", by_hand, path=str(item.path))
            versions[str(item.path)] = version
        chosen = compiler_of(context)
        own = versions.get(str(chosen.path / "bin" / "icpx")) if chosen else None
        if wanted and own and not specifier(wanted.versions).contains(Version(own), prereleases=True):
            detail = f"icpx is {own}, the recipe needs {wanted.versions}"
            return self.found(detail, Fix("install the release that the recipe names"), versions=versions)
        return self._read_sycl(context, next(iter(found.values())), versions)

    def _read_sycl(self, context: Context, item: Icpx, versions: dict[str, str]) -> Outcome:
        argv = [str(item.path), *_SYNTAX_ONLY]
        result = query(argv, env=_environment(item, context), deadline_s=_DEADLINE_S)
        if result.ok:
            return self.ok(f"icpx {', '.join(dict.fromkeys(versions.values()))} runs", versions=versions)
        said = (result.stderr or result.stdout).strip()[-300:] or "it printed nothing"
        detail = f"{item.path} states its version and does not read an empty SYCL source: {said}"
        return self.warn(detail, Fix("run it by hand", (shlex.join(argv),)), versions=versions)


def _environment(item: Icpx, context: Context) -> dict[str, str]:
    """Return the allow-listed environment, with the libraries that the compiler's own script would add."""
    return {**base_environment(context.environ), "LD_LIBRARY_PATH": str(item.path.parent.parent / "lib")}


def _ask(item: Icpx, context: Context) -> tuple[str, str]:
    """Return what is wrong with a compiler, and the version that it states."""
    if not is_file(item.path):
        return "is not there", ""
    try:
        result = query([str(item.path), "--version"], env=_environment(item, context), deadline_s=_DEADLINE_S)
    except XpuBuildError as error:
        return f"cannot be started: {error.why or error.what}", ""
    stated = _STATED.search(result.stdout)
    if result.timed_out:
        return f"did not answer within {_DEADLINE_S:g} s", ""
    said = (result.stderr or result.stdout).strip()[-300:] or "no output"
    if result.returncode != 0:
        return f"ended with status {result.returncode}: {said}", ""
    if stated is None:
        return f"does not say that it is Intel's oneAPI compiler: {said}", ""
    return "", stated[1]


class ToolchainSyclCmake(Check):
    """CMake would find the SYCL toolkit, and PTI where the recipe builds the profiler with it."""

    id = "toolchain.sycl_cmake"
    title = "CMake finds SYCL and PTI"
    needs = ("oneapi.installed",)
    profiles = frozenset({"build"})
    families = (
        "C-oneapi-not-found-silent-cpu-build",
        "P-missing-build-component",
        "N-run-time-jit-headers",
    )
    explanation = """\
PyTorch's `FindSYCLToolkit.cmake` takes `SYCL_ROOT`, else `CMPLR_ROOT`, else (from 2.8)
`/opt/intel/oneapi/compiler/latest`, and needs `bin/icx`, `include/sycl/sycl.hpp` and `lib/libsycl.so`
there. This looks for these files, in the folder that the environment names and in the one that a build
would take. For a recipe that sources `pti` it looks for `PtiConfig.cmake`, which Kineto's XPU plugin
asks for.
"""

    def run(self, context: Context) -> Outcome:
        if for_cpu(context):
            return self.skip("the recipe is built for the CPU and needs no SYCL toolkit")
        places = dict(_toolkits(context))
        if not places:
            return self.skip("there is no oneAPI compiler to look at")
        for folder, origin in places.items():
            missing = [name for name, there in _toolkit_files(folder).items() if not there]
            if missing:
                detail = f"{shown(context, folder)} ({origin}) lacks {', '.join(missing)}"
                return self.found(detail, _reinstall(context), missing=missing, folder=shown(context, folder))
        pti = self._pti(context)
        return pti or self.ok(f"complete: {', '.join(shown(context, folder) for folder in places)}")

    def _pti(self, context: Context) -> Outcome | None:
        chosen = context.probe(selection)
        pti = None if isinstance(chosen, XpuBuildError) else chosen.get("pti")
        if pti is None or any(pti.path.glob("lib*/cmake/pti/PtiConfig.cmake")):
            return None
        detail = f"{shown(context, pti.path)} has no lib/cmake/pti/PtiConfig.cmake"
        names = ["intel-pti-dev"]
        fix = Fix(
            "install PTI's development files", install_command(context, debian=names, rhel=names, suse=names)
        )
        return self.found(detail, fix, folder=shown(context, pti.path))


def _toolkits(context: Context) -> Iterator[tuple[Path, str]]:
    chosen = compiler_of(context)
    if chosen is not None:
        yield chosen.path, "the installation that a build would take"
    for name in ("SYCL_ROOT", "CMPLR_ROOT"):
        value = context.environ.get(name, "")
        if value.startswith("/"):
            if is_dir(inside(context, value)):
                yield inside(context, value).resolve(), name
            return


def _toolkit_files(folder: Path) -> dict[str, bool]:
    return {
        "bin/icx": is_file(folder / "bin" / "icx"),
        "include/sycl/sycl.hpp": is_file(folder / "include" / "sycl" / "sycl.hpp"),
        "lib/libsycl.so": is_dir(folder / "lib") and is_file(folder / "lib" / "libsycl.so"),
    }


def _reinstall(context: Context) -> Fix:
    chosen = compiler_of(context)
    line = ".".join(version_of(chosen.version).split(".")[:2]) if chosen else ""
    name = f"intel-oneapi-compiler-dpcpp-cpp-{line}" if line else "intel-oneapi-compiler-dpcpp-cpp"
    return Fix(
        "reinstall the compiler component, or let SYCL_ROOT and CMPLR_ROOT lead to a whole one",
        install_command(context, debian=[name], rhel=[name], suse=[name]),
    )


class ToolchainGcc(Check):
    """The host compiler is a GCC that the recipe can be built with."""

    id = "toolchain.gcc"
    title = "The host compiler fits"
    profiles = frozenset({"build"})
    families = ("J-host-compiler-version", "G-pin-mismatch-or-broken-main")
    explanation = """\
The compilers are those that `CC` and `CXX` name, else `gcc` and `g++` on `PATH`. Held against the
recipe: its range, what it refuses (GCC 15 up to 2.8: the bundled gloo lacks an include), and features
that get lost without an error (flash attention on XPU needs GCC 13 from 2.10 on): a warning. Another
host compiler than GCC leaves the XPU kernels out silently, so it fails. GCC 12.x with AVX-512 kernels
has had internal compiler errors. Without a recipe only the presence of a C++ compiler is looked at.
"""

    def run(self, context: Context) -> Outcome:
        needs = context.recipe.recipe.needs if context.recipe else None
        compiler = self._compiler(context, needs)
        if isinstance(compiler, Outcome):
            return compiler
        told = f"{compiler.kind} {compiler.version} ({compiler.path})"
        if context.recipe is None:
            return self.ok(told, kind=compiler.kind, version=compiler.version)
        if compiler.kind == "gcc":
            for refusal in context.recipe.recipe.refuses:
                if set(refusal.when) == {"gcc"} and fits(compiler.version, refusal.when["gcc"]) == "yes":
                    return self.found(f"GCC {compiler.version}: {refusal.why}", another_gcc(context))
        lost = _losses(context, compiler)
        if lost:
            newer = another_gcc(context)
            fix = Fix(f"do without, or build with a newer GCC: {newer.summary}", newer.commands)
            return self.warn(f"GCC {compiler.version}: the build will lack {', '.join(lost)}", fix, lost=lost)
        return self.ok(told, kind=compiler.kind, version=compiler.version)

    def _compiler(self, context: Context, needs: Needs | None) -> CompilerFacts | Outcome:
        wanted = (needs.gcc or ("" if needs.host_compiler == "GNU" else None)) if needs else None
        if context.live and any(context.environ.get(name) for name in ("CC", "CXX")):
            try:
                return choose_compilers(wanted, caller=context.environ, system=context.host.os).cxx
            except XpuBuildError as error:
                return self.found(f"{error.what}: {error.why}", Fix(error.fix, error.commands))
        facts = next((item for item in context.host.compilers if item.name == "g++"), None)
        if facts is None:
            return self._without(context)
        if wanted is not None and facts.kind not in ("gcc", UNKNOWN):
            detail = f"g++ on PATH is {facts.kind} {facts.version}, and the recipe needs GCC"
            return self.found(detail, another_gcc(context))
        if wanted and fits(facts.version, wanted) == "no":
            detail = f"{facts.path} is GCC {facts.version}, and the recipe needs GCC {wanted}"
            return self.found(detail, another_gcc(context), found=facts.version, wanted=wanted)
        return facts

    def _without(self, context: Context) -> Outcome:
        if not context.live:
            return self.skip("the version of a compiler in an image is not known from files")
        fix = Fix(
            "install a C and C++ compiler",
            install_command(context, debian=["gcc", "g++"], rhel=["gcc", "gcc-c++"], suse=["gcc", "gcc-c++"]),
        )
        if context.recipe is None and not context.to_build:
            return self.warn("no g++ is on PATH; building, and torch.compile, need one", fix)
        return self.found("no g++ is on PATH", fix)


def _losses(context: Context, compiler: CompilerFacts) -> list[str]:
    recipe = context.recipe.recipe if context.recipe else None
    if recipe is None or compiler.kind != "gcc":
        return []
    return [
        loss.feature
        for loss in recipe.loses
        if "gcc" in loss.when
        and recipe.target in loss.targets
        and fits(compiler.version, loss.when["gcc"]) == "yes"
    ]


class ToolchainCmake(Check):
    """CMake on PATH is in the recipe's range."""

    id = "toolchain.cmake"
    title = "The CMake on PATH fits"
    severity = "warn"
    profiles = frozenset({"build"})
    recipe = True
    live = True
    families = ("M-python-build-tools", "C-oneapi-not-found-silent-cpu-build")
    explanation = """\
`xpubuild install` puts its own CMake, of a pinned version, into the workspace, so a CMake on `PATH` is
not used and a wrong one is a warning. It decides for builds by hand: 4.x refuses the bundled protobuf
of 2.6 and older, one before 3.27 is too old from 2.9 on, and one before 3.20.5 cannot read oneAPI's own
package files. A CMake from pip does not look into a conda prefix, one from conda does.
"""

    def run(self, context: Context) -> Outcome:
        wanted = context.recipe.recipe.needs.cmake if context.recipe else None
        facts = next((item for item in context.host.tools if item.name == "cmake"), None)
        if facts is None:
            return self.ok("none is on PATH; the build brings its own")
        if facts.version == UNKNOWN:
            fix = Fix("run it by hand, or take it from PATH", (f"{shlex.quote(facts.path)} --version",))
            return self.found(f"{facts.path} does not state its version", fix)
        if fits(facts.version, wanted) != "no":
            return self.ok(f"CMake {facts.version} ({facts.path})", version=facts.version)
        fix = Fix(
            "nothing for xpubuild install; for a build by hand, install one that fits into its environment",
            (f"python -m pip install 'cmake{wanted}'",),
        )
        detail = f"CMake on PATH is {facts.version}, the recipe needs {wanted}; xpubuild brings its own"
        return self.found(detail, fix, version=facts.version, wanted=wanted)


class ToolchainNinja(Check):
    """Ninja on PATH runs."""

    id = "toolchain.ninja"
    title = "The ninja on PATH runs"
    severity = "warn"
    profiles = frozenset({"build"})
    live = True
    families = ("M-python-build-tools",)
    explanation = """\
`xpubuild install` brings its own ninja; one on `PATH` that does not run (a wrapper of a removed Python,
a library that is gone) stops builds by hand and `torch.utils.cpp_extension`.
"""

    def run(self, context: Context) -> Outcome:
        facts = next((item for item in context.host.tools if item.name == "ninja"), None)
        if facts is None:
            return self.ok("none is on PATH; the build brings its own")
        if facts.version == UNKNOWN:
            fix = Fix("reinstall it, or take it from PATH", (f"{shlex.quote(facts.path)} --version",))
            return self.found(f"{facts.path} does not state its version", fix)
        return self.ok(f"ninja {facts.version} ({facts.path})", version=facts.version)


class ToolchainGit(Check):
    """git is there and new enough."""

    id = "toolchain.git"
    title = "git is new enough"
    profiles = frozenset({"build"})
    live = True
    families = ("H-torch-xpu-ops-and-submodule-checkout",)
    explanation = """\
Sources are fetched as pinned commits with git, and PyTorch's CMake runs git itself while it configures
(torch-xpu-ops, oneDNN). xpubuild does not build from tarballs: they have no submodules.
"""

    def run(self, context: Context) -> Outcome:
        path = locate(("git",), context.environ.get("PATH", "")).get("git")
        install = Fix("install git", install_command(context, debian=["git"], rhel=["git"], suse=["git"]))
        if path is None:
            return self.found("git is not on PATH", install)
        version = probe_tool(path, base_environment(context.environ)).version
        if version == UNKNOWN:
            return self.found(f"{path} does not state its version", install)
        oldest = ".".join(map(str, OLDEST_GIT))
        if fits(version, f">={oldest}") == "no":
            return self.found(f"git is {version}; {oldest} or newer is needed", install, version=version)
        return self.ok(f"git {version}", version=version)

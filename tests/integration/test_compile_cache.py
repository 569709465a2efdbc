"""Real ccache: what a plan tells builds makes them hit, in another workspace and from a shared storage."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.plan_files import plan_for
from support.sycl_compiler.driver import install

from xpubuild.engine.environment import base_environment
from xpubuild.engine.execution import command_environment
from xpubuild.engine.model import Plan
from xpubuild.install.build_compilers import compile_cache
from xpubuild.install.target import Compilers, OneapiFacts
from xpubuild.supply.caching import FamilyCounts, counts_of, logs_of
from xpubuild.workspace.layout import Layout

pytestmark = [pytest.mark.needs("ccache", "g++"), pytest.mark.xdist_group("compile-cache")]

_SOURCE = '#include "twice.h"\nint four() { return twice(2); }\nconst char* name() { return __FILE__; }\n'
_HEADER = "#pragma once\ninline int twice(int x) { return 2 * x; }\n"
_CMAKE = "cmake_minimum_required(VERSION 3.18)\nproject(p LANGUAGES CXX)\nadd_library(four MODULE four.cpp)\n"


def _compilers() -> Compilers:
    found = {name: shutil.which(name) or name for name in ("gcc", "g++")}
    return Compilers(found["gcc"], found["g++"], "13.2.0", {"cc": "gcc 13.2.0"}, "gcc")


class Workspace:
    """A place with the plan of a build there, sources and an environment, and ways to compile as it would."""

    def __init__(self, root: Path, cache_dir: Path, icpx: Path | None = None) -> None:
        self.root, self.layout = root, Layout(root)
        path = [str(icpx.parent)] if icpx else []
        caller = {**os.environ, "CCACHE_DIR": str(cache_dir), "PATH": ":".join((*path, os.environ["PATH"]))}
        oneapi = None if icpx is None else OneapiFacts(path_prefix=(str(icpx.parent),))
        with mock.patch.dict(os.environ, caller):
            cache = compile_cache("ccache", _compilers(), oneapi)
        assert not isinstance(cache, str), cache
        facts: dict[str, Any] = {"compile_cache": cache, "compilers": _compilers()}
        self.plan: Plan = plan_for(
            "2.13", with_=("vision",), facts=facts, workspace=str(root), oneapi="2025.3" if icpx else None
        )
        self.base = base_environment(caller)
        (root / "src").mkdir(parents=True)
        (root / "env").mkdir()
        self.layout.build.mkdir()
        self.source, self.header = root / "src" / "four.cpp", root / "env" / "twice.h"
        self.source.write_text(_SOURCE)
        self.header.write_text(_HEADER)

    def environment(self, component: str) -> dict[str, str]:
        found = command_environment(self.plan.step(f"{component}.wheel").commands[-1], self.base)
        # The launcher that admits compilers by memory is a file that an install writes.
        admitted = {"CCACHE_PREFIX", "CMAKE_C_LINKER_LAUNCHER", "CMAKE_CXX_LINKER_LAUNCHER"}
        return {name: value for name, value in found.items() if name not in admitted}

    def compile(self, *before: str, component: str = "torch", **more: str) -> bytes:
        """Compile the source with absolute paths, as CMake and setuptools do; return the object."""
        made = self.layout.build / "four.o"
        made.unlink(missing_ok=True)
        env = {**self.environment(component), **more}
        argv = (*(before or (env["CXX"],)), "-I", self.header.parent, "-O1", "-c", self.source, "-o", made,
                "-MD", "-MF", f"{made}.d")  # fmt: skip
        subprocess.run(argv, env=env, cwd=self.layout.build, check=True, capture_output=True, timeout=600)
        return made.read_bytes()

    def launch(self, **more: str) -> bytes:
        """Compile by the launcher, as the commands that CMake writes."""
        env = self.environment("torch")
        return self.compile(env["CMAKE_CXX_COMPILER_LAUNCHER"], env["CXX"], **more)

    def sycl(self) -> str:
        """Write what an install writes, and return the script in the place of icx that CMake takes."""
        for path, text in self.plan.files.items():
            if "/launcher/" in path:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_text(text)
                Path(path).chmod(0o755)
        project = self.root / "cmake"
        project.mkdir(exist_ok=True)
        # As torch-xpu-ops' FindSYCL.cmake in every release.
        (project / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.18)\nproject(torch NONE)\n"
            'set(SYCL_EXECUTABLE /opt/bin/icx CACHE FILEPATH "")\nmessage("=${SYCL_EXECUTABLE}=")\n'
        )
        included = self.environment("torch")["CMAKE_PROJECT_INCLUDE"]
        argv = ("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PROJECT_INCLUDE={included}")
        shown = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120)
        return shown.stderr.split("=")[1]

    def counts(self, family: str = "C++", component: str = "torch") -> FamilyCounts:
        found = counts_of(logs_of(component, self.layout.build))
        return next(item for item in found if item.family == family)


def outcome(counts: FamilyCounts) -> tuple[int, int, int]:
    return counts.hits, counts.misses, counts.not_cached


def test_another_workspace_at_another_path_hits_and_gets_the_same_object(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first, second = Workspace(tmp_path / "a b", cache), Workspace(tmp_path / "deep/er" / "w", cache)
    made = first.launch()
    assert str(tmp_path).encode() not in made
    assert second.launch() == made
    assert outcome(first.counts()) == (0, 1, 0)
    assert outcome(second.counts()) == (1, 0, 0)


def test_links_named_like_the_compilers_hit_what_launchers_compiled(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first, second = Workspace(tmp_path / "a", cache), Workspace(tmp_path / "b", cache)
    made = first.launch()
    for command in second.plan.step("compile-cache").commands:
        subprocess.run(command.argv, check=True)
    for proof in second.plan.step("compile-cache").proofs:
        proof.check()
    assert second.compile(component="vision") == made
    assert outcome(second.counts(component="vision")) == (1, 0, 0)


def test_what_decides_an_object_misses_and_says_why(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    here = Workspace(tmp_path / "a", cache)
    here.launch()
    here.header.write_text(_HEADER.replace("2 * x", "x + x"))
    here.launch()
    assert here.counts().reasons["an included file changed"] == 1
    # An update of GCC that leaves the driver as it was: another compiler proper.
    proper = tmp_path / "cc1plus"
    proper.write_text("another")
    before = here.counts().misses
    here.launch(CCACHE_EXTRAFILES=str(proper))
    assert here.counts().misses == before + 1


def test_settings_with_which_ccache_serves_the_wrong_object_are_taken_back(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "ccache.conf").write_text("ignore_options = -D*\ncompiler_check = none\nmax_size = 7G\n")
    here = Workspace(tmp_path / "a", cache)
    env = here.environment("torch")
    assert "CCACHE_MAXSIZE" not in env, "the user's own"
    launcher = env["CMAKE_CXX_COMPILER_LAUNCHER"]
    first = here.compile(launcher, env["CXX"], "-Dfour=one_")
    second = here.compile(launcher, env["CXX"], "-Dfour=two_")
    assert first != second


@pytest.mark.needs("cmake", "ninja")
def test_cmake_takes_the_launcher_from_the_environment(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for name in ("a", "b"):
        here = Workspace(tmp_path / name, cache)
        (here.root / "src" / "CMakeLists.txt").write_text(_CMAKE)
        env = {**here.environment("torch"), "CXXFLAGS": f"-I{here.header.parent}"}
        for argv in (("cmake", "-G", "Ninja", "-S", here.root / "src", "-B", "."), ("ninja",)):
            subprocess.run(argv, env=env, cwd=here.layout.build, check=True, capture_output=True, timeout=120)
    assert here.counts().misses == 0, here.counts()
    assert here.counts().hits >= 1


@pytest.mark.needs("cmake")
def test_sycl_hits_in_depend_mode_though_its_preprocessor_never_says_the_same(tmp_path: Path) -> None:
    """A stand-in for icpx that preprocesses as icpx does: with a new name of a temporary file each time."""
    icpx = tmp_path / "oneapi" / "icpx"
    icpx.parent.mkdir()
    icpx.with_name("icx").symlink_to(icpx)
    icpx.write_text(
        "#!/bin/sh\n"
        'for word; do case $word in -E) echo "// $(mktemp -u)"; esac; done\n'
        'for word; do shift; case $word in -fsycl|-fc*) ;; *) set -- "$@" "$word"; esac; done\n'
        'exec g++ "$@"\n'
    )
    icpx.chmod(0o755)
    cache = tmp_path / "cache"
    made = []
    for name in ("a", "b"):
        here = Workspace(tmp_path / name, cache, icpx=icpx)
        made.append(here.compile(here.sycl(), "-fsycl"))
    assert made[0] == made[1]
    assert outcome(here.counts("SYCL")) == (1, 0, 0)
    # The host compiler is no argument that ccache knows, and compiles half of the object.
    hashed = next(word for word in shlex.split(Path(here.sycl()).read_text()) if "CCACHE_EXTRAFILES=" in word)
    assert _compilers().cxx in hashed.partition("=")[2].split(":")


_KERNEL = """#include <sycl/sycl.hpp>
#include "twice.h"
void all(sycl::queue& queue, int* x) {
  queue.parallel_for<class Twice>(sycl::range<1>(8), [=](sycl::id<1> i) { x[i] = twice(x[i]); });
}
"""


@pytest.mark.needs("cmake")
@pytest.mark.slow
def test_intels_front_end_hits_in_depend_mode_in_another_workspace(sycl_env: Path, tmp_path: Path) -> None:
    oneapi = tmp_path / "oneapi"
    oneapi.mkdir()
    icpx = install(oneapi, str(sycl_env))
    icpx.with_name("icx").symlink_to(icpx)
    made = []
    for name in ("a", "b"):
        here = Workspace(tmp_path / name, tmp_path / "cache", icpx=icpx)
        here.source.write_text(_KERNEL)
        made.append(here.compile(here.sycl(), "-fsycl", "-fPIC"))
    assert outcome(here.counts("SYCL")) == (1, 0, 0)
    assert made[0] == made[1]
    assert b".sycl_images" in made[1]

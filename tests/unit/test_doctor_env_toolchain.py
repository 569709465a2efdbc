"""oneAPI, compilers, git and build tools: odd layouts and programs that do not do what they should."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import DEBIAN, EnvHost, findings, offline
from support.doctor_frame import a_context
from support.doctor_shows import shows
from support.imports import ROOT

from xpubuild.doctor.checks import oneapi, python, toolchain
from xpubuild.doctor.checks.build import build_disk
from xpubuild.doctor.checks.oneapi import oneapi_installed
from xpubuild.doctor.checks.python import machine_platform, python_runs, python_version
from xpubuild.doctor.checks.toolchain import toolchain_gcc
from xpubuild.doctor.kit import Check, Outcome, Profile
from xpubuild.doctor.look.compatible import situation
from xpubuild.doctor.look.toolkits import sourced, toolkits
from xpubuild.machine.compilers import CompilerFacts, ToolFacts
from xpubuild.machine.disk import DiskFacts
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.load import load

OLD = standin.BUNDLE_2025_1
GCC_8 = CompilerFacts("g++", "/usr/bin/g++", "gcc", "8.5.0")
CLANG = CompilerFacts("g++", "/usr/bin/g++", "clang", "17.0.6")


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


# oneAPI


def test_the_unified_layout_is_one_toolkit(host: EnvHost) -> None:
    folder = standin.build_unified(host.oneapi_root)
    host.environ.update(ONEAPI_ROOT=str(folder), CMPLR_ROOT=str(folder), MKLROOT=str(folder))
    context = host.context()
    assert [item.toolkit for item in context.probe(toolkits)] == ["2025.1"]
    assert {item.version for item in context.probe(sourced)} == {"2025.1"}
    assert oneapi.oneapi_mixed(context).status == "ok"
    assert oneapi.oneapi_sourced(host.context(offline("2.8"))).status == "ok"
    assert oneapi.oneapi_sourced(host.context(offline("2.13"))).status == "fail"


def test_no_oneapi_is_a_warning_without_a_recipe_and_nothing_for_the_cpu(host: EnvHost) -> None:
    assert oneapi.oneapi_installed(host.context()).status == "warn"
    assert oneapi.oneapi_installed(host.context(load("quickstart"))).status == "skip"


def test_the_fix_of_a_missing_oneapi_fits_the_distribution(host: EnvHost) -> None:
    fix = oneapi.oneapi_installed(host.context(offline("2.8"))).fix
    assert any("apt-get install -y intel-deep-learning-essentials-2025.1" in line for line in fix.commands)


def test_an_image_is_looked_at_by_its_files(tmp_path: Path) -> None:
    root = tmp_path / "image"
    standin.build_root(root / "opt" / "intel" / "oneapi", {**OLD, "mkl": "2025.1"})
    context = a_context(root, os=DEBIAN)
    assert oneapi.oneapi_installed(context).status == "ok"
    found = toolchain.toolchain_sycl_cmake(context)
    assert found.status == "fail"
    assert found.detail.startswith("/opt/intel/oneapi/compiler/2025.1 ")


# tools


def icpx(host: EnvHost, text: str) -> Outcome:
    root = host.oneapi(OLD)
    standin.write(root / "compiler" / OLD["compiler"] / "bin" / "icpx", text, mode=0o755)
    return toolchain.toolchain_icpx(host.context(offline("2.8")))


def test_icpx_that_does_not_read_sycl_is_a_warning(host: EnvHost) -> None:
    says = "echo 'Intel(R) oneAPI DPC++/C++ Compiler 2025.1.1 (2025.1.1.20250418)'"
    found = icpx(
        host, f'#!/bin/sh\nif [ "$1" = --version ]; then {says}; else echo no clang >&2; exit 1; fi\n'
    )
    assert (found.status, "no clang" in found.detail) == ("warn", True)


def test_cmake_that_does_not_run(host: EnvHost) -> None:
    host.facts["tools"] = (ToolFacts("cmake", "/usr/local/bin/cmake"),)
    assert toolchain.toolchain_cmake(host.context(offline("2.8"))).status == "warn"
    host.facts["tools"] = ()
    assert toolchain.toolchain_cmake(host.context(offline("2.8"))).status == "ok"


def test_cc_and_cxx_of_the_caller_count(host: EnvHost) -> None:
    host.environ["CXX"] = "no-such-compiler"
    assert toolchain.toolchain_gcc(host.context(offline("2.8"))).status == "fail"
    words = "#!/bin/sh\nprintf 'Target: x86_64-linux-gnu\\ngcc version 13.2.0 (of mine)\\n' >&2\n"
    host.environ["CXX"] = str(standin.write(host.folder / "bin" / "g++-of-mine", words, mode=0o755))
    host.facts["compilers"] = ()
    assert toolchain.toolchain_gcc(host.context(offline("2.8"))).status == "ok"


@pytest.mark.parametrize(
    ("facts", "check", "constraint", "found"),
    [
        ({}, toolchain.toolchain_gcc, "gcc", False),
        ({"compilers": (GCC_8,)}, toolchain.toolchain_gcc, "gcc", True),
        ({"compilers": (CLANG,)}, toolchain.toolchain_gcc, "host_compiler", True),
        ({}, oneapi.oneapi_installed, "oneapi", True),
        ({}, python.python_version, "python", False),
    ],
)  # fmt: skip
def test_doctor_says_of_a_host_what_the_matrix_says(
    host: EnvHost, facts: dict[str, Any], check: Check, constraint: str, found: bool
) -> None:
    host.oneapi({"compiler": "2025.3"})
    host.facts.update(facts)
    look = host.context(offline("2.8"))
    assert look.wanted is not None
    against = {item.constraint for item in solve(look.wanted, situation(look)).reasons if item.answer == "no"}
    assert (constraint in against, check(look).status == "fail") == (found, found)


# ---- doctor: the kind of machine, the interpreter that must run, and what --profile build alone asks for


BUILD: frozenset[Profile] = frozenset({"build"})


# the machine


@pytest.mark.parametrize("machine", ["aarch64", "i686", "ppc64le", "riscv64"])
def test_another_architecture_fails_for_run_and_build(host: EnvHost, machine: str) -> None:
    host.facts["os"] = replace(DEBIAN, machine=machine)
    found = machine_platform(host.context())
    assert (found.status, machine in found.detail, found.fix is not None) == ("fail", True, True)
    assert machine_platform.profiles == {"run", "build"}


@shows("fail", "machine.platform")
def test_one_cause_is_one_failure(host: EnvHost) -> None:
    before = findings(host.context())
    host.facts["os"] = replace(DEBIAN, machine="aarch64")
    assert findings(host.context()) == {**before, "machine.platform": "fail"}


@pytest.mark.parametrize(
    ("loaders", "status", "word"),
    [
        (("lib64/ld-linux-x86-64.so.2",), "ok", "x86_64"),
        (("lib64/ld-linux-x86-64.so.2", "lib/ld-linux.so.2"), "ok", "x86_64"),
        (("lib64/ld-linux-x86-64.so.2", "lib/ld-musl-x86_64.so.1"), "ok", "x86_64"),
        (("lib/ld-linux-aarch64.so.1",), "fail", "aarch64"),
        (("lib/ld-musl-x86_64.so.1",), "fail", "musl"),
        (("lib/ld-musl-aarch64.so.1",), "fail", "aarch64"),
        (("lib/ld-linux.so.2",), "fail", "i686"),
        ((), "skip", "unknown"),
    ],
)
def test_an_image_is_judged_by_its_loaders(
    tmp_path: Path, loaders: tuple[str, ...], status: str, word: str
) -> None:
    for name in loaders:
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        # As in Debian 11: absolute, which is another file, or none, on the machine that looks.
        place.symlink_to("/lib/nowhere/ld-2.31.so")
    found = machine_platform(a_context(tmp_path))
    assert (found.status, word in found.detail) == (status, True)


# the interpreter


@shows("fail", "python.runs")
def test_a_broken_interpreter_is_one_failure_with_a_recipe(host: EnvHost) -> None:
    context = host.context(load("2.8"), python=Path("/bin/false"))
    assert python_runs(context).status == "fail"
    assert python_version(context).status == "skip"


# --profile build


def test_what_a_build_needs_fails_where_a_build_is_all_that_was_asked_about(host: EnvHost) -> None:
    host.facts["compilers"] = ()
    host.facts["disk"] = DiskFacts(str(host.folder), 1 << 40, 1 << 30, 10**7, "ext4", "/", False, False)
    for check in (oneapi_installed, toolchain_gcc, build_disk):
        assert check(host.context(profiles=BUILD)).status == "fail", check.id
        assert check(host.context()).status == "warn", check.id


def test_the_profile_reaches_the_checks_and_the_exit_status(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "xpubuild", "doctor", "--only", "oneapi.installed"]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "ONEAPI_ROOT": str(tmp_path / "none")}
    ended = [
        subprocess.run([*argv, *more], cwd=ROOT, env=environ, capture_output=True, timeout=60, check=False)
        for more in (["--profile", "build"], [])
    ]
    assert [item.returncode for item in ended] == [10, 0], ended[0].stdout

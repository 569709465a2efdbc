"""oneAPI, compilers, git and build tools: odd layouts and programs that do not do what they should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import DEBIAN, EnvHost, offline
from support.doctor_frame import a_context

from xpubuild.doctor.checks import oneapi, python, toolchain
from xpubuild.doctor.kit import Check, Outcome
from xpubuild.doctor.look.compatible import situation
from xpubuild.doctor.look.toolkits import sourced, toolkits
from xpubuild.machine.compilers import CompilerFacts, ToolFacts
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
    assert fix is not None
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


def test_no_compiler_fails_a_recipe_and_warns_without(host: EnvHost) -> None:
    host.facts["compilers"] = ()
    assert toolchain.toolchain_gcc(host.context(offline("2.8"))).status == "fail"
    assert toolchain.toolchain_gcc(host.context()).status == "warn"


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

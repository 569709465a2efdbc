"""Hosts with one thing wrong in their environment: exactly the expected checks find something."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import GIB, EnvHost, findings, offline, outcomes
from support.doctor_shows import shows
from support.engine import small_disk
from support.small_elf import library

from xpubuild.doctor.kit import Outcome
from xpubuild.machine.capacity import cgroup_limits, cpu_facts, memory_facts
from xpubuild.machine.compilers import CompilerFacts, ToolFacts
from xpubuild.machine.disk import disk_facts
from xpubuild.recipe.model import LoadedRecipe

NEW, OLD = {**standin.BUNDLE_2025_3, "mkl": "2025.3"}, {**standin.BUNDLE_2025_1, "mkl": "2025.1"}
Wrong = Callable[[EnvHost], object]


def bad(found: dict[str, Outcome]) -> set[str]:
    return {name for name, item in found.items() if item.status not in ("ok", "skip")}


@pytest.fixture(scope="session")
def recipe() -> LoadedRecipe:
    return offline("2.8")


@pytest.fixture
def healthy(tmp_path: Path) -> EnvHost:
    host = EnvHost(tmp_path)
    host.oneapi(OLD)
    host.torch()
    host.vision("0.23.0+xpu", requires="torch==2.8.0")
    return host


@shows(
    "ok", "build.disk", "build.filesystem", "build.memory", "build.tmpdir", "caches.stale",
    "machine.platform", "network.proxy", "oneapi.components", "oneapi.installed", "oneapi.mixed",
    "oneapi.sourced", "python.headers", "python.pip_constraints", "python.runs", "python.version",
    "shadow.conda", "shadow.libraries", "shadow.libstdcxx", "shadow.sycl_soname", "shadow.system",
    "shadow.variables", "toolchain.cmake", "toolchain.gcc", "toolchain.git", "toolchain.icpx",
    "toolchain.sycl_cmake", "torch.libraries", "torch.one_triton", "torch.runtime_packages",
    "torch.vision_pairing", "torch.xpu_build",
)  # fmt: skip
def test_a_healthy_host_has_no_finding(healthy: EnvHost, recipe: LoadedRecipe) -> None:
    assert findings(healthy.context(recipe)) == {}


def test_the_release_of_the_recipe_may_be_sourced(healthy: EnvHost, recipe: LoadedRecipe) -> None:
    healthy.source(healthy.oneapi_root, OLD)
    assert findings(healthy.context(recipe)) == {}


def other_release_only(host: EnvHost) -> None:
    standin.remove(host.oneapi_root)
    host.oneapi(NEW)


def two_versions_in_the_environment(host: EnvHost) -> None:
    # Both fit in themselves: the same release, once in the system's place and once in the user's.
    other = standin.build_root(host.folder / "home" / "oneapi-of-mine", OLD)
    host.complete(other, OLD)
    host.source(host.oneapi_root, OLD)
    # A library of another build comes first for every program of this shell.
    host.environ["LIBRARY_PATH"] = str(other / "compiler" / OLD["compiler"] / "lib")


def two_versions_of_a_component(host: EnvHost) -> None:
    standin.add_component(host.oneapi_root, "ccl", "2021.17", latest=False)
    host.environ["CCL_ROOT"] = str(host.oneapi_root / "ccl" / "2021.17")
    host.environ["LIBRARY_PATH"] = str(host.oneapi_root / "ccl" / OLD["ccl"] / "lib")
    (host.oneapi_root / "ccl" / OLD["ccl"] / "lib").mkdir()


def wrong_release_sourced(host: EnvHost) -> None:
    standin.build_root(host.oneapi_root, NEW)
    host.complete(host.oneapi_root, NEW)
    for name, version in OLD.items():
        standin.point_latest(host.oneapi_root, name, version)
    # Nothing torch has beside it is hidden by a compiler's bin and root alone.
    host.environ["CMPLR_ROOT"] = str(host.oneapi_root / "compiler" / NEW["compiler"])
    host.environ["SETVARS_COMPLETED"] = "1"


def mpi_in_front(host: EnvHost) -> None:
    folder = host.folder / "openmpi" / "lib"
    library(folder / "libmkl_core.so.2", mark="of a module")
    library(host.prefix / "lib" / "libmkl_core.so.2", mark="of pip")
    host.environ["LD_LIBRARY_PATH"] = str(folder)


def old_libfabric_in_front(host: EnvHost) -> None:
    fabric, mpi = "libfabric.so.1", host.folder / "impi" / "opt" / "mpi" / "libfabric" / "lib"
    library(mpi / fabric, defines=["FABRIC_1.0", "FABRIC_1.7"])
    library(mpi / "prov" / "libtcp-fi.so", wants={fabric: ["FABRIC_1.7"]})
    old = library(host.folder / "module" / fabric, defines=["FABRIC_1.0"])
    host.environ["LD_LIBRARY_PATH"] = f"{old.parent}:{mpi}"
    host.environ["FI_PROVIDER_PATH"] = f"{mpi}/prov"


def mkl_of_conda(host: EnvHost) -> None:
    conda = host.folder / "conda"
    standin.write(conda / "conda-meta" / "mkl-2023.1.0-h213fc3f_46344.json", "{}")
    standin.write(conda / "conda-meta" / "python-3.12.4-h5148396_1.json", "{}")
    host.environ["CONDA_PREFIX"] = str(conda)


def old_libstdcxx_of_conda(host: EnvHost) -> None:
    versions = ["GLIBCXX_3.4", "GLIBCXX_3.4.28", "GLIBCXX_3.4.29"]
    library(host.prefix / "lib" / "libstdc++.so.6", defines=versions)
    (host.prefix / "conda-meta").mkdir()


def overlinked(host: EnvHost) -> None:
    standin.remove(host.site / "torch")
    standin.remove(host.site / "torch-2.8.0+xpu.dist-info")
    for name in ("intel_sycl_rt-2025.1.1", "pytorch_triton_xpu-3.4.0"):
        standin.remove(host.site / f"{name}.dist-info")
    host.torch(needed=["libmkl_intel_lp64.so.2"])


def no_memory(host: EnvHost) -> None:
    """4 GiB in a control group of a machine with 64 cores, as the kernel writes it."""
    root = host.folder / "machine"
    cpus = "".join(f"processor\t: {number}\nmodel name\t: Intel(R) Xeon(R)\n\n" for number in range(64))
    standin.write(root / "proc" / "cpuinfo", cpus)
    standin.write(root / "proc" / "meminfo", "MemTotal: 263921884 kB\nMemAvailable: 240000000 kB\n")
    standin.write(root / "proc" / "self" / "cgroup", "0::/job\n")
    group = root / "sys" / "fs" / "cgroup"
    standin.write(group / "cgroup.controllers", "cpu memory\n")
    standin.write(group / "job" / "memory.max", f"{4 * GIB}\n")
    standin.write(group / "job" / "memory.current", "104857600\n")
    limits = cgroup_limits(root)
    host.facts.update(cpu=cpu_facts(root, limits), memory=memory_facts(root, limits))
    assert host.facts["cpu"].usable == 64


def icpx(host: EnvHost, *lines: str) -> None:
    text = "\n".join(("#!/bin/sh", *lines, ""))
    standin.write(host.oneapi_root / "compiler" / OLD["compiler"] / "bin" / "icpx", text, mode=0o755)


def compiler(kind: str, version: str) -> Wrong:
    return lambda host: host.facts.update(compilers=(CompilerFacts("g++", "/usr/bin/g++", kind, version),))


LOST = "echo 'icpx: error while loading shared libraries: libimf.so: cannot open' >&2"
PROXY, OTHER_PROXY = "http://127.0.0.1:3128", "http://127.0.0.1:3129"
VERSION_PY = "__version__ = '0.23.0'\ncuda = '12.8'\n"
#: What is wrong, and what finds it.
WRONG: dict[str, tuple[Wrong, dict[str, str]]] = {
    "no oneAPI": (lambda host: standin.remove(host.oneapi_root), {"oneapi.installed": "fail"}),
    "another release": (other_release_only, {"oneapi.installed": "fail"}),
    "no PTI": (lambda host: standin.remove(host.oneapi_root / "pti"), {"oneapi.components": "fail"}),
    "no MKL": (lambda host: standin.remove(host.oneapi_root / "mkl"), {"oneapi.components": "fail"}),
    "two versions in the environment": (two_versions_in_the_environment, {"oneapi.mixed": "fail"}),
    "two versions of a component": (two_versions_of_a_component, {"oneapi.mixed": "fail"}),
    "latest drifted": (
        lambda host: standin.add_component(host.oneapi_root, "ccl", "2021.17"), {"oneapi.mixed": "warn"}
    ),
    "the wrong release sourced": (
        wrong_release_sourced, {"oneapi.sourced": "fail", "shadow.conda": "warn"}
    ),
    "setvars said so": (
        lambda host: host.environ.update(SETVARS_COMPLETED="1"), {"oneapi.sourced": "warn"}
    ),
    "sourced and removed": (
        lambda host: host.environ.update(CMPLR_ROOT=str(host.oneapi_root / "compiler" / "2024.2")),
        {"oneapi.sourced": "fail"},
    ),
    "icpx without its library": (lambda host: icpx(host, LOST, "exit 127"), {"toolchain.icpx": "fail"}),
    "DPC++ of its open source": (
        lambda host: icpx(host, "echo 'clang version 21.0.0git'"), {"toolchain.icpx": "fail"}
    ),
    "icpx of another patch": (
        lambda host: standin.add_compilers(host.oneapi_root / "compiler" / OLD["compiler"], "2025.3.0"),
        {"toolchain.icpx": "fail"},
    ),
    "no header of SYCL": (
        lambda host: (host.oneapi_root / "compiler" / OLD["compiler"] / "include/sycl/sycl.hpp").unlink(),
        {"toolchain.sycl_cmake": "fail"},
    ),
    "PTI without CMake": (
        lambda host: standin.remove(host.oneapi_root / "pti" / OLD["pti"] / "lib"),
        {"toolchain.sycl_cmake": "fail"},
    ),
    "GCC 15": (compiler("gcc", "15.1.0"), {"toolchain.gcc": "fail"}),
    "GCC 8": (compiler("gcc", "8.5.0"), {"toolchain.gcc": "fail"}),
    "clang": (compiler("clang", "17.0.6"), {"toolchain.gcc": "fail"}),
    "CMake 3.16": (
        lambda host: host.facts.update(tools=(ToolFacts("cmake", "/usr/bin/cmake", "3.16.3"),)),
        {"toolchain.cmake": "warn"},
    ),
    "no git": (lambda host: host.environ.update(PATH=host.environ["HOME"]), {"toolchain.git": "fail"}),
    "Python 3.9": (lambda host: host.python("3.9.18"), {"python.version": "fail"}),
    "no headers of Python": (lambda host: host.python(headers=False), {"python.headers": "fail"}),
    "pip's user": (
        lambda host: standin.write(host.folder / "home/.config/pip/pip.conf", "[global]\nuser = true\n"),
        {"python.pip_constraints": "fail"},
    ),
    "pip's constraint": (
        lambda host: host.environ.update(PIP_CONSTRAINT="/srv/constraints.txt"),
        {"python.pip_constraints": "warn"},
    ),
    "MPI in front": (mpi_in_front, {"shadow.libraries": "fail"}),
    "an old libfabric in front": (old_libfabric_in_front, {"shadow.libfabric": "fail"}),
    "dpctl of 2026": (
        lambda host: library(host.site / "dpctl" / "libDPCTLSyclInterface.so", needed=["libsycl.so.9"]),
        {"shadow.sycl_soname": "fail"},
    ),
    "MKL of conda": (mkl_of_conda, {"shadow.conda": "warn"}),
    "an old libstdc++ of conda": (old_libstdcxx_of_conda, {"shadow.libstdcxx": "fail"}),
    "oneDNN in CPATH": (
        lambda host: host.environ.update(CPATH=str(standin.write(host.folder / "i/dnnl.hpp", "").parent)),
        {"shadow.variables": "warn"},
    ),
    "the old ABI in flags": (
        lambda host: host.environ.update(CXXFLAGS="-O2 -D_GLIBCXX_USE_CXX11_ABI=0"),
        {"shadow.variables": "warn"},
    ),
    "two tritons": (lambda host: host.triton("triton", "3.4.0", intel=False), {"torch.one_triton": "fail"}),
    "a triton put over": (
        lambda host: standin.remove(host.site / "triton" / "backends" / "intel"), {"torch.one_triton": "fail"}
    ),
    "vision for CUDA": (
        lambda host: (host.site / "torchvision" / "version.py").write_text(VERSION_PY),
        {"torch.vision_pairing": "fail"},
    ),
    "a lost runtime": (
        lambda host: standin.remove(host.site / "intel_sycl_rt-2025.1.1.dist-info"),
        {"torch.runtime_packages": "fail"},
    ),
    "overlinked": (overlinked, {"torch.libraries": "fail"}),
    "a stale cache": (
        lambda host: library(host.folder / "home/.triton/cache/AB12/launcher.so", needed=["libsycl.so.7"]),
        {"caches.stale": "warn"},
    ),
    "no memory": (no_memory, {"build.memory": "fail"}),
    "a broken proxy": (
        lambda host: host.environ.update(https_proxy="http://proxy.example:port"), {"network.proxy": "fail"}
    ),
    "proxies that differ": (
        lambda host: host.environ.update(https_proxy=PROXY, http_proxy=PROXY, HTTPS_PROXY=OTHER_PROXY),
        {"network.proxy": "warn"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wrong", "expected"), WRONG.values(), ids=WRONG)
def test_exactly_the_expected_checks_find_something(
    healthy: EnvHost, recipe: LoadedRecipe, wrong: Wrong, expected: dict[str, str]
) -> None:
    wrong(healthy)
    assert findings(healthy.context(recipe)) == expected


def test_the_sycl_runtime_of_another_year_is_sourced(healthy: EnvHost) -> None:
    versions = {**NEW, "compiler": "2026.0"}
    root = standin.build_root(healthy.folder / "oneapi-2026", versions)
    healthy.complete(root, versions)
    healthy.environ["LD_LIBRARY_PATH"] = str(root / "compiler" / "2026.0" / "lib")
    assert findings(healthy.context()) == {"shadow.sycl_soname": "fail"}


def test_the_cpu_build_of_torch_where_xpu_was_meant(tmp_path: Path, recipe: LoadedRecipe) -> None:
    host = EnvHost(tmp_path)
    host.oneapi(OLD)
    host.torch("2.8.0+cpu", xpu=False)
    assert findings(host.context(recipe)) == {"torch.xpu_build": "fail"}


def test_a_cmake_that_is_too_new_for_an_older_release(tmp_path: Path) -> None:
    host = EnvHost(tmp_path)
    host.oneapi({"compiler": "2025.0", "umf": "0.9", "pti": "0.10"})
    host.facts["tools"] = (ToolFacts("cmake", "/usr/bin/cmake", "4.0.2"),)
    assert findings(host.context(offline("2.6"))) == {"toolchain.cmake": "warn"}


def test_an_older_gcc_loses_flash_attention(tmp_path: Path) -> None:
    host = EnvHost(tmp_path)
    host.oneapi(NEW)
    compiler("gcc", "12.3.0")(host)
    found = outcomes(host.context(offline("2.13")))
    assert bad(found) == {"toolchain.gcc"}
    assert "flash attention" in found["toolchain.gcc"].detail


@pytest.mark.needs("mount")
def test_a_full_disk(healthy: EnvHost, recipe: LoadedRecipe) -> None:
    with small_disk(healthy.folder / "work", "64k,nr_inodes=1k") as work:
        full = work / "full"
        with full.open("wb") as stream, suppress(OSError):
            stream.write(b"x" * (1 << 20))
        healthy.facts["disk"] = disk_facts(work)
        assert findings(healthy.context(recipe)) == {"build.disk": "fail"}


@pytest.mark.needs("mount")
@pytest.mark.parametrize(("options", "word"), [("8g,noexec", "noexec"), ("8g,ro", "read-only")])
@shows("fail", "build.filesystem")
def test_a_workspace_where_nothing_can_be_built(
    healthy: EnvHost, recipe: LoadedRecipe, options: str, word: str
) -> None:
    with small_disk(healthy.folder / "work", options) as work:
        real = disk_facts(work)
        healthy.facts["disk"] = type(real)(**{**real.__dict__, "free_bytes": 900 * GIB, "inodes_free": None})
        found = outcomes(healthy.context(recipe))
        assert bad(found) == {"build.filesystem"}
        assert word in found["build.filesystem"].detail

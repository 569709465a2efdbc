"""oneAPI made of Intel's own wheels: one line, two side by side; only the scripts and icpx are stand-ins."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from integration.oneapi_environments import get
from support import oneapi_wheels
from support.doctor_env import EnvHost, offline
from support.oneapi_wheels import Tree
from support.shared import folder_of_run

from xpubuild.artifacts.elf import read_shared_object
from xpubuild.artifacts.linkage import Linker, sycl_runtimes
from xpubuild.doctor.checks import oneapi, toolchain
from xpubuild.errors import ToolchainError

V2025_0 = ">=2025.0,<2025.1"
PARTS = ("compiler", "umf", "pti")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where wheels are unpacked, once for all workers."""
    return folder_of_run(tmp_path_factory)


@pytest.fixture
def one(tmp_path: Path, shared: Path) -> Tree:
    return oneapi_wheels.build(tmp_path / "oneapi", shared, ["2025.0"])


@pytest.fixture
def two(tmp_path: Path, shared: Path) -> Tree:
    return oneapi_wheels.build(tmp_path / "oneapi", shared, ["2025.0", "2024.2"])


def test_of_two_lines_the_wanted_one_is_captured_and_its_compiler_is_asked(two: Tree) -> None:
    environment = get(two.root, V2025_0, PARTS)
    compiler = two.component("compiler", "2025.0")
    assert environment.compiler_version == "2025.0.4"
    assert environment.diff.set["CMPLR_ROOT"] == str(compiler)
    assert "2024.2" not in str(environment.diff.paths)
    assert two.calls() == [["--version"], ["--version"]], "icx and icpx"


def test_a_line_whose_icpx_is_gone_is_refused_before_a_build(one: Tree) -> None:
    """Beside an icx, upstream's CMake says nothing of it (2.6, 2.13, 2.14)."""
    (one.component("compiler") / "bin" / "icpx").unlink()
    with pytest.raises(ToolchainError, match="icpx"):
        get(one.root, V2025_0, PARTS)


def test_a_library_of_another_line_is_drift(two: Tree) -> None:
    standin.write(
        two.root / "umf" / "0.9" / "env" / "vars.sh",
        f'export LD_LIBRARY_PATH="{two.root}/compiler/latest/lib:$LD_LIBRARY_PATH"\n',
    )
    with pytest.raises(ToolchainError, match=r"mixes compiler 2025\.0 and 2024\.2"):
        get(two.root, V2025_0, PARTS)


def closure(folder: Path, name: str) -> tuple[set[str], set[str]]:
    """Return what a library needs, directly or not: found beside it, and found nowhere."""
    elf = read_shared_object(folder / name)
    found = Linker({name: elf}, search=[folder]).closure(name)
    beside = {library for library, item in found.found.items() if item.path.startswith(str(folder))}
    return beside, {item.library for item in found.missing}


def test_the_real_libraries_are_linked_as_the_checks_take_them_to_be(two: Tree) -> None:
    libraries = two.component("compiler", "2025.0") / "lib"
    beside, missing = closure(libraries, "libsycl.so.8")
    assert "libur_loader.so.0" in beside
    assert {"libsvml.so", "libimf.so"} & missing, "of intel-cmplr-lib-rt, which is left out"
    dft = {
        line: read_shared_object(two.component("mkl", line) / "lib" / "libmkl_sycl_dft.so")
        for line in ("2024.2", "2025.0")
    }
    runtimes = sycl_runtimes((line, elf.needed) for line, elf in dft.items())
    assert runtimes == {"libsycl.so.7": ["2024.2"], "libsycl.so.8": ["2025.0"]}
    assert read_shared_object(libraries / "libsycl-preview.so").soname == "libsycl-preview.so.8"


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path / "host")


def on(host: EnvHost, tree: Tree) -> None:
    shutil.copytree(tree.root, host.oneapi_root, symlinks=True)
    host.environ["ONEAPI_ROOT"] = str(host.oneapi_root)


def test_doctor_takes_the_real_headers_and_libraries_for_a_toolkit(host: EnvHost, one: Tree) -> None:
    on(host, one)
    assert oneapi.oneapi_installed(host.context(offline("2.6"))).status == "ok"
    assert oneapi.oneapi_components(host.context(offline("2.6"))).status == "ok"
    found = toolchain.toolchain_sycl_cmake(host.context(offline("2.6")))
    assert "PtiConfig.cmake" in found.detail, "the wheels of PTI have none"
    assert toolchain.toolchain_sycl_cmake(host.context()).status == "ok"


@pytest.mark.parametrize("part", ["bin/icpx", "bin/icx", "lib/libsycl.so", "include/sycl/sycl.hpp"])
def test_doctor_names_each_part_that_is_taken_away(host: EnvHost, one: Tree, part: str) -> None:
    on(host, one)
    (host.oneapi_root / "compiler" / "2025.0" / part).unlink()
    found = toolchain.toolchain_sycl_cmake(host.context())
    assert found.status == "fail"
    assert found.evidence["missing"] == [part]


def test_doctor_refuses_onemkl_of_another_line_beside_the_compiler(host: EnvHost, two: Tree) -> None:
    """CMake takes mkl/latest, which leads to the line that was installed last."""
    on(host, two)
    for name in ("mpi", "ccl"):
        standin.add_component(host.oneapi_root, name, "2021.14")
    found = oneapi.oneapi_components(host.context(offline("2.7")))
    assert found.status == "fail"
    assert "mkl 2024.2 with the compiler 2025.0" in found.detail

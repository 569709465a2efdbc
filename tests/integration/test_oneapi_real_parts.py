"""oneAPI made of Intel's own wheels: one line, two side by side; only the scripts and icpx are stand-ins."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from integration.oneapi_environments import get
from support import oneapi_wheels, sycl_tree
from support.cli import Xpubuild
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


def test_doctor_takes_onemkl_of_the_compilers_line_wherever_latest_leads(host: EnvHost, two: Tree) -> None:
    on(host, two)
    for name in ("mpi", "ccl"):
        standin.add_component(host.oneapi_root, name, "2021.14")
    found = oneapi.oneapi_components(host.context(offline("2.7")))
    assert found.status == "ok"
    assert found.evidence["components"]["mkl"] == "2025.0"
    standin.remove(host.oneapi_root / "mkl" / "2025.0")
    found = oneapi.oneapi_components(host.context(offline("2.7")))
    assert found.status == "fail"
    assert "mkl 2024.2 with the compiler 2025.0" in found.detail


#: The line that each release takes of three in one root, and what else is of that line.
LINES = {"2.8": ("2025.1", "2021.15"), "2.11": ("2025.3", "2021.17"), "2.13": ("2026.0", "2022.0")}


@pytest.fixture
def three(tmp_path: Path, shared: Path) -> Tree:
    tree = oneapi_wheels.build(tmp_path / "oneapi", shared, [line for line, _ in LINES.values()])
    scripts = {"pti": ("0.12", "0.16", "0.17"), "umf": ("0.10", "1.0", "1.1"),
               "mpi": ("2021.15", "2021.17", "2021.18"), "ccl": ("2021.15", "2021.17", "2022.0")}  # fmt: skip
    for name, versions in scripts.items():
        for version in versions:
            standin.add_component(tree.root, name, version)
    return tree


def listing(root: Path) -> dict[str, tuple[int, int]]:
    found = {str(path): path.lstat() for path in sorted(root.rglob("*"))}
    return {path: (status.st_mtime_ns, status.st_ino) for path, status in found.items()}


@pytest.mark.needs("cmake", "ninja", "g++")
def test_of_three_lines_in_one_root_each_release_takes_its_own(
    three: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``latest`` leads to the newest everywhere; it is neither used nor changed."""
    xpubuild, before = Xpubuild(capsys, monkeypatch), listing(three.root)
    commit, root = sycl_tree.make(tmp_path / "tree"), str(three.root)
    for release, (line, ccl) in LINES.items():
        plan = xpubuild.json("plan", release, "--oneapi-root", root, "--workspace", str(tmp_path / release))
        *_, command = next(step for step in plan["steps"] if step["id"] == "torch.wheel")["commands"]
        env, words = command["env"], set(str(command).replace("'", "/").replace(":", "/").split("/"))
        assert (env["CMPLR_ROOT"], env["MKLROOT"], env["CCL_ROOT"]) == (
            f"{three.root}/compiler/{line}", f"{three.root}/mkl/{line}", f"{three.root}/ccl/{ccl}",
        )  # fmt: skip
        others = {item for pair in LINES.values() for item in pair} - {line, ccl}
        assert not words & {*others, "latest"}, release
        # The configure step of a tree that looks for oneMKL as torch-xpu-ops does.
        recipe = tmp_path / f"small-{release}.yaml"
        text = sycl_tree.recipe(tmp_path / "tree", commit, oneapi=f"=={line}.*", beside=["mkl"])
        recipe.write_text(text, "utf-8")
        rehearsal = xpubuild(
            "rehearse", str(recipe), "--workspace", str(tmp_path / "small"), "--oneapi-root", root, "--json",
            XDG_CACHE_HOME=str(tmp_path / "cache"),
        )  # fmt: skip
        assert rehearsal.status == 0, rehearsal.err
        report = rehearsal.document()
        assert report["sycl_groups"][0]["compiler"] == f"{three.root}/compiler/{line}/bin/icx"
        cache = (Path(report["build"]) / "CMakeCache.rehearsed.txt").read_text("utf-8")
        assert f"ONEMKL:FILEPATH={three.root}/mkl/{line}/lib/libmkl_sycl_dft.so" in cache
    assert listing(three.root) == before

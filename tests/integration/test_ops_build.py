"""The ops extension through real pip, CMake, ninja and g++."""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from integration.torch_env import MKL, TORCH, OpsSite, TorchEnv, build_wheel, copy_sources, install_wheel
from support.files import script

from xpubuild.resources import ops_project_dir

LIBRARY = "xpubuild_ops/libxpubuild_ops.so"


def configure(env: TorchEnv, source: Path, build: Path, **defines: str) -> tuple[int, str]:
    """Run CMake alone; return its status and output with the line breaks of its messages taken out."""
    done = env.run(
        "cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DPython_EXECUTABLE={env.python}",
        f"-DCMAKE_PREFIX_PATH={env.root}", *(f"-D{name}={value}" for name, value in defines.items()),
    )  # fmt: skip
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def library(wheel: Path, folder: Path) -> Path:
    """Unpack the library of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(LIBRARY, folder))


def dynamic(path: Path, tag: str) -> list[str]:
    """Return the values of one kind of dynamic entry."""
    with path.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".dynamic")
        assert isinstance(section, DynamicSection)
        name = {"DT_NEEDED": "needed", "DT_RUNPATH": "runpath"}[tag]
        return [getattr(entry, name) for entry in section.iter_tags(tag)]


def symbols(path: Path, *, defined: bool) -> list[str]:
    """Return the names of dynamic symbols."""
    with path.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".dynsym")
        assert isinstance(section, SymbolTableSection)
        return [
            s.name for s in section.iter_symbols() if s.name and (s["st_shndx"] != "SHN_UNDEF") == defined
        ]


def test_wheel_serves_every_python_and_says_what_it_needs(ops_site: OpsSite) -> None:
    assert re.fullmatch(r"xpubuild_ops-0\.1\.0-py3-none-linux_\w+\.whl", ops_site.wheel.name)
    with zipfile.ZipFile(ops_site.wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        text = archive.read(metadata).decode()
    assert f"Requires-Dist: torch=={TORCH}+cpu" in text


def test_library_needs_torch_and_no_mkl(ops_site: OpsSite, tmp_path: Path) -> None:
    path = library(ops_site.wheel, tmp_path)
    needed = dynamic(path, "DT_NEEDED")
    assert "libtorch_cpu.so" in needed
    assert not [name for name in needed if "mkl" in name or "iomp" in name]
    assert dynamic(path, "DT_RUNPATH") == ["$ORIGIN/../torch/lib"]


def test_library_exports_nothing_and_takes_no_mkl_from_elsewhere(ops_site: OpsSite, tmp_path: Path) -> None:
    path = library(ops_site.wheel, tmp_path)
    assert symbols(path, defined=True) == []
    undefined = symbols(path, defined=False)
    assert not [name for name in undefined if re.search(r"mkl_|MKL_|cblas|sgemm", name)]
    # The link line is in order, so torch's own symbols do come from torch, with the strings of ABI 1.
    assert any(name.startswith("_ZN3c106detail14torchCheckFail") and "__cxx11" in name for name in undefined)


@pytest.fixture(scope="module")
def second(torch_env: TorchEnv, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``src``, a copy of the sources, the wheel of it in ``out``, and ``build``."""
    folder = tmp_path_factory.mktemp("sources with ünïcode")
    source = copy_sources(folder / "src")
    done = build_wheel(torch_env, source, folder / "out", build=folder / "build")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_two_builds_in_different_folders_give_the_same_wheel(ops_site: OpsSite, second: Path) -> None:
    assert (second / "out" / ops_site.wheel.name).read_bytes() == ops_site.wheel.read_bytes()


def test_library_holds_no_folder_of_the_build(ops_site: OpsSite, torch_env: TorchEnv, tmp_path: Path) -> None:
    content = library(ops_site.wheel, tmp_path).read_bytes()
    for folder in (ops_project_dir(), torch_env.root, Path(torch_env.environ["TMPDIR"])):
        assert str(folder).encode() not in content


def test_abi_0_builds_and_does_not_load_into_a_torch_with_abi_1(torch_env: TorchEnv, tmp_path: Path) -> None:
    done = build_wheel(
        torch_env, ops_project_dir(), tmp_path / "out", OPS_CXX11_ABI="0", CMAKE_CXX_FLAGS_RELEASE="-O0"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "out").glob("*.whl")
    path = library(wheel, tmp_path)
    assert "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs" in symbols(path, defined=False)
    install_wheel(torch_env, wheel, tmp_path / "site")
    loaded = torch_env.run(torch_env.python, "-c", "import xpubuild_ops", PYTHONPATH=str(tmp_path / "site"))
    assert loaded.returncode == 1
    last = loaded.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: libxpubuild_ops.so does not load beside torch")
    assert "undefined symbol" in last


@pytest.mark.parametrize("path", ["third_party/fused", "third_party/fused/third_party/vecmath"])
def test_missing_submodule_is_named(torch_env: TorchEnv, tmp_path: Path, path: str) -> None:
    source = copy_sources(tmp_path / "src")
    shutil.rmtree(source / path)
    (source / path).mkdir()
    status, output = configure(torch_env, source, tmp_path / "b")
    assert status != 0
    assert f"The submodule {path} is missing" in output
    assert "git submodule update --init --recursive" in output


def test_configure_says_what_it_found(torch_env: TorchEnv, tmp_path: Path) -> None:
    status, output = configure(torch_env, ops_project_dir(), tmp_path / "b")
    assert status == 0, output
    assert f"torch {TORCH}+cpu, C++20, CXX11 ABI 1, MKL {MKL} static, XPU OFF" in output


@pytest.mark.parametrize(
    ("defines", "message"),
    [
        ({"OPS_CXX11_ABI": "2"}, "OPS_CXX11_ABI is '2'; it must be 0 or 1."),
        ({"LibTorch_ROOT": "/nowhere/torch"}, "Could NOT find LibTorch"),
        ({"CMAKE_PREFIX_PATH": "/nowhere"}, "Put the environment that holds mkl-static and mkl-include on"),
        ({"OPS_USE_XPU": "ON"}, "no SYCL compiler was found"),
        (
            {"OPS_USE_XPU": "ON", "OPS_SYCL_COMPILER": shutil.which("g++") or ""},
            "does not compile a SYCL program with -fsycl",
        ),
    ],
)
def test_configure_stops_with_the_reason(
    torch_env: TorchEnv, tmp_path: Path, defines: dict[str, str], message: str
) -> None:
    status, output = configure(torch_env, ops_project_dir(), tmp_path / "b", **defines)
    assert status != 0
    assert message in output


def test_python_without_torch_is_said(torch_env: TorchEnv, tmp_path: Path) -> None:
    status, output = configure(torch_env, ops_project_dir(), tmp_path / "b", Python_EXECUTABLE=sys.executable)
    assert status != 0
    assert "has no package torch" in output


def test_xpu_with_a_torch_without_xpu_is_refused(torch_env: TorchEnv, tmp_path: Path) -> None:
    standin = script(tmp_path / "icpx-stand-in", "exit 0")
    status, output = configure(
        torch_env, ops_project_dir(), tmp_path / "b", OPS_USE_XPU="ON", OPS_SYCL_COMPILER=str(standin)
    )
    assert status != 0
    assert f"torch {TORCH}+cpu in" in output
    assert "was built without XPU (no libc10_xpu.so)" in output


def test_a_link_line_that_takes_the_mkl_of_torch_is_refused(torch_env: TorchEnv, second: Path) -> None:
    """Only the link line is another one, so only the link runs again."""
    top = second / "src" / "CMakeLists.txt"
    right = "PRIVATE ${MKLStatic_LIBRARIES} fused torch::cpu torch::openmp)"
    text = top.read_text("utf-8")
    assert right in text
    top.write_text(
        text.replace(right, "PRIVATE torch::cpu ${MKLStatic_LIBRARIES} fused torch::openmp)"), "utf-8"
    )
    done = build_wheel(torch_env, second / "src", second / "refused", build=second / "build")
    assert done.returncode != 0
    assert "takes MKL symbols from another library" in " ".join((done.stdout + done.stderr).split())

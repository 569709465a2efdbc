"""``xpubuild rehearse`` on a small tree of the same shape, with oneAPI made of Intel's wheels."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from integration.torch_env import TorchEnv
from support import oneapi_wheels, sycl_tree
from support.cli import Result, Xpubuild
from support.documents import check
from support.shared import folder_of_run

from xpubuild.artifacts.configure import configure, configured_folder

pytestmark = pytest.mark.needs("cmake", "ninja", "g++")


@dataclass(frozen=True)
class Place:
    """Where rehearsals run: one workspace, so that its environment is made once."""

    folder: Path
    root: Path
    commit: str

    def recipe(self, **changes: Any) -> Path:
        path = self.folder / "small.yaml"
        text = sycl_tree.recipe(self.folder / "tree", self.commit, oneapi=">=2025.0,<2025.1", **changes)
        path.write_text(text, "utf-8")
        return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("rehearse")
    shared = folder_of_run(tmp_path_factory)
    tree = oneapi_wheels.build(folder / "oneapi", shared, ["2025.0"], components=("compiler", "ccl"))
    return Place(folder, tree.root, sycl_tree.make(folder / "tree"))


@pytest.fixture
def xpubuild(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Xpubuild:
    return Xpubuild(capsys, monkeypatch)


def rehearse(
    xpubuild: Xpubuild, place: Place, *more: str, switches: Mapping[str, Any] | None = None
) -> Result:
    return xpubuild(
        "rehearse", str(place.recipe(**(switches or {}))), "--workspace", str(place.folder / "ws"),
        "--oneapi-root", str(place.root), "--log-format", "plain", *more,
        XDG_CACHE_HOME=str(place.folder / "cache"),
    )  # fmt: skip


def test_what_would_be_built_is_read_from_the_generated_commands(xpubuild: Xpubuild, place: Place) -> None:
    result = rehearse(xpubuild, place, "--json")
    assert result.status == 0, result.err
    report = result.document()
    check(report, "rehearsal")
    kernels, tla = report["sycl_groups"]
    assert (kernels["name"], len(kernels["sources"]), kernels["aot"]) == ("sycl_kernels", 2, ["pvc"])
    assert (kernels["host_standard"], kernels["cxx11_abi"], kernels["preview"]) == ("17", 1, [])
    assert kernels["compiler"] == f"{place.root.resolve()}/compiler/2025.0/bin/icx"
    assert (len(tla["sources"]), tla["aot"]) == (1, ["pvc", "bmg"])
    assert [item["id"] for item in report["warnings"]] == ["aot-targets-of-sycl-tla"]
    assert (report["verdict"], report["sycl_files"]) == ("warnings", 3)
    switches = {item["name"]: item for item in report["switches"]}
    assert switches["USE_XPU"]["on"]
    assert switches["USE_XPU"]["reason"] == "requested"
    objects = [*Path(report["build"]).rglob("*.o"), *(place.folder / "ws" / "wheels").glob("*")]
    assert objects == [], "nothing is compiled"
    assert not (place.folder / "ws" / "receipt.json").exists()
    left = sorted(path.name for path in Path(report["build"]).glob("CMakeCache*"))
    assert left == ["CMakeCache.rehearsed.txt"], "an install configures with its own options"


def test_the_text_says_it_too(xpubuild: Xpubuild, place: Place) -> None:
    out = rehearse(xpubuild, place, switches={"USE_XCCL": 1}).out
    assert "3 in 2 groups" in out
    assert "pvc, bmg" in out
    assert "oneCCL 2021.17 or newer" in out, "2021.14, which is installed, lacks libccl.so.2.0"
    assert "OneCCL library not found!! (line" in " ".join(out.split())


def test_other_gpus_than_requested_stop_it_although_nothing_is_printed(
    xpubuild: Xpubuild, place: Place
) -> None:
    lists = place.folder / "tree" / "CMakeLists.txt"
    text = lists.read_text("utf-8")
    lists.write_text(
        text.replace('sycl_library(sycl_kernels "${TORCH_XPU_ARCH_LIST}"', 'sycl_library(sycl_kernels "dg2"')
    )
    changed = Place(place.folder, place.root, sycl_tree.commit_all(place.folder / "tree", "other"))
    result = rehearse(xpubuild, changed, "--json")
    assert result.status == 53
    report = result.document()
    check(report, "rehearsal")
    assert report["verdict"] == "no-xpu"
    assert report["error"]["evidence"]["rule"] == "aot-targets-of-commands"
    assert report["error"]["evidence"]["found"] == "dg2"
    assert report["sycl_groups"][0]["aot"] == ["dg2"], "the report has the commands all the same"


def test_a_part_of_oneapi_taken_away_stops_it_with_upstreams_words(xpubuild: Xpubuild, place: Place) -> None:
    root = place.folder / "less"
    shutil.copytree(place.root, root, symlinks=True)
    for library in (root / "compiler" / "2025.0" / "lib").glob("libsycl.so"):
        library.unlink()
    result = rehearse(xpubuild, Place(place.folder, root, place.commit))
    assert result.status == 53
    assert "the XPU gate stopped it" in result.out
    assert "Could NOT find SYCL" in result.err


def test_a_prebuilt_torch_has_nothing_to_rehearse(xpubuild: Xpubuild, tmp_path: Path) -> None:
    result = xpubuild("rehearse", "quickstart", "--workspace", str(tmp_path / "ws"))
    assert result.status == 2
    assert "does not build PyTorch from source" in result.err
    assert not (tmp_path / "ws").exists()


SCIKIT = """\
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "torch"
version = "2.14.0"
[tool.scikit-build]
wheel.packages = ["pkg"]
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(torch CXX)
add_library(big STATIC source.cpp)
install(TARGETS big DESTINATION lib)
"""


def test_a_tree_of_scikit_build_core_is_configured_and_not_compiled(
    torch_env: TorchEnv, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """PyTorch's back end from 2.14 on has no switch for this: it builds the list of its targets alone."""
    files = {
        "pyproject.toml": SCIKIT,
        "CMakeLists.txt": CMAKE,
        "source.cpp": "int x;\n",
        "pkg/__init__.py": "",
    }
    for name, text in files.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text, "utf-8")
    build = tmp_path / "build"
    environ = {**torch_env.environ, "CMAKE_GENERATOR": "Ninja"}
    status = configure(tmp_path / "tree", torch_env.python, (f"build-dir={build}",), environ)
    out = capfd.readouterr().out
    assert status == 0, out
    assert f"-- Build files have been written to: {build}" in out
    assert configured_folder(str(tmp_path / "tree"), (str(build),)) == build
    assert [*build.rglob("*.o"), *build.rglob("*.a"), *tmp_path.rglob("*.whl")] == []

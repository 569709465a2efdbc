"""``--libtorch``: an archive is written only after a C++ program was built and run against it."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest
from integration.torch_env import TorchEnv
from support.cli import Xpubuild
from support.files import lay

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel
from xpubuild.errors import AuditError, UsageError
from xpubuild.install.receipt import Libtorch
from xpubuild.install.results import make

pytestmark = pytest.mark.needs("cmake", "g++")
#: As much of torch as the program uses, of which nothing computes.
HEADER = """\
#pragma once
#include <initializer_list>
namespace torch {
struct Tensor {
  float value;
  template <class T> T item() const { return value; }
  Tensor grad() const { return {12}; }
  Tensor sum() const { return *this; }
  void backward() const {}
};
inline Tensor ones(std::initializer_list<int>) { return {1}; }
namespace nn {
struct Layer { Tensor weight, bias; Tensor forward(Tensor) { return {SEVEN}; } };
struct Linear { Layer layer; Linear(int, int) {} Layer* operator->() { return &layer; } };
namespace init { inline void constant_(Tensor, int) {} }
}
}
namespace at { inline bool hasXPU() { return true; } }
"""
FILES = {
    "include/torch/torch.h": HEADER,
    "include/ATen/x.h": "",
    "lib/libtorch.so": "",
    "lib/libtorch.so.1": "",
    "lib/libtorch_python.so": "",
    "lib/libshm/manager.cpp": "",
    "bin/torch_shm_manager": "",
    "bin/test_api": "",
    "share/cmake/Torch/TorchConfig.cmake": "include_directories(${CMAKE_CURRENT_LIST_DIR}/../../../include)\n"
    "add_definitions(-DSEVEN=7)\nset(TORCH_LIBRARIES)\n",
    "__init__.py": "",
}


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    licences = {"LICENSE": "BSD", "a/LICENSE": "of a third party"}
    lay(tmp_path / "site" / "torch-2.8.0.dist-info" / "licenses", licences)
    return lay(tmp_path / "site" / "torch", FILES)


def pack(torch: Path, archive: Path) -> Libtorch:
    return make(torch, archive, ["-DCMAKE_CXX_COMPILER=g++"], base_environment(), Cancel())


def test_it_holds_what_a_program_needs_and_is_the_same_each_time(torch: Path, tmp_path: Path) -> None:
    found = pack(torch, tmp_path / "out" / "libtorch.tar.gz")
    with tarfile.open(found["archive"]) as archive:
        names = archive.getnames()
    assert names == [
        f"libtorch/{name}"
        for name in (
            "bin/torch_shm_manager", "include/ATen/x.h", "include/torch/torch.h", "lib/libtorch.so",
            "lib/libtorch.so.1", "share/cmake/Torch/TorchConfig.cmake", "LICENSE",
        )
    ]  # fmt: skip
    assert found["xpu"]
    again = shutil.copytree(torch.parent, tmp_path / "again") / "torch"
    (again / "lib" / "libtorch.so").touch()
    assert pack(again, tmp_path / "other" / "2.tar.gz")["sha256"] == found["sha256"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["libtorch.tar.gz"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("struct Linear", "struct Other", "cannot be built"),
        ("set(", "message(FATAL_ERROR lost)\nset(", "cannot be configured"),
        ("SEVEN=7", "SEVEN=8", "computes wrong results"),
        ("return true;", "__builtin_trap();", "cannot be run"),
    ],
)
def test_an_archive_that_no_program_can_use_is_not_written(
    torch: Path, tmp_path: Path, old: str, new: str, said: str
) -> None:
    for path in (torch / "include/torch/torch.h", torch / "share/cmake/Torch/TorchConfig.cmake"):
        path.write_text(path.read_text().replace(old, new))
    with pytest.raises(AuditError, match=said):
        pack(torch, tmp_path / "out" / "libtorch.tar")
    assert list((tmp_path / "out").iterdir()) == []


def test_what_cannot_become_one_is_refused_before_a_build(
    torch: Path, tmp_path: Path, xpubuild: Xpubuild
) -> None:
    workspace = tmp_path / "ws"
    argv = ("install", "quickstart", "--workspace", str(workspace), "--libtorch")
    result = xpubuild(*argv, str(tmp_path / "libtorch.zip"))
    assert result.status == 2
    assert ".tar.gz" in result.err
    assert not workspace.exists()
    (torch / "share/cmake/Torch/TorchConfig.cmake").unlink()
    with pytest.raises(UsageError, match=r"TorchConfig\.cmake"):
        pack(torch, tmp_path / "libtorch.tar")


def test_a_program_uses_the_archive_of_a_real_torch(torch_env: TorchEnv, tmp_path: Path) -> None:
    environment = {**base_environment(), "PATH": f"{torch_env.root / 'bin'}:/usr/bin:/bin"}
    options = ["-DCMAKE_CXX_COMPILER=g++", "-DCMAKE_CXX_STANDARD=20"]
    found = make(torch_env.site / "torch", tmp_path / "libtorch.tar", options, environment, Cancel())
    assert not found["xpu"]
    assert found["bytes"] == (tmp_path / "libtorch.tar").stat().st_size

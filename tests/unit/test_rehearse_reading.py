"""What a rehearsal reads of a configuration, and the command that configures each kind of tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.artifacts.cmake_build import SwitchFound, read_cache, read_messages, read_switches
from xpubuild.artifacts.configure import ConfiguredProof, TreeKind, configure_argv, configured_folder
from xpubuild.errors import RecipeError
from xpubuild.ui.parts import Table
from xpubuild.ui.run_views import rehearsal_view

# Lines of PyTorch 2.6.0's configure step (cmake/Summary.cmake, cmake/Dependencies.cmake#L1230).
LOG = """\
CMake Warning at cmake/Dependencies.cmake:1230 (message):
  Not compiling with NUMA.  Suppress this warning with -DUSE_NUMA=OFF
Call Stack (most recent call first):
  CMakeLists.txt:863 (include)

-- USE_ONEMKL_XPU is set to ON
--   USE_XPU               : 1
--     SYCL include path   : /opt/one/include
--   USE_NUMA              : OFF
--   USE_XCCL              : OFF
--   BUILD_TEST            : 0
--   USE_MKLDNN            : 0
"""


def switches(requested: dict[str, str], cache: dict[str, str]) -> dict[str, SwitchFound]:
    found = read_switches(requested, cache, read_messages(LOG.splitlines()))
    return {item.name: item for item in found}


def test_switches_come_with_the_reason() -> None:
    requested = {"USE_XPU": "1", "USE_NUMA": "1", "USE_XCCL": "ON", "BUILD_TEST": "0"}
    found = switches(requested, {"USE_XPU": "OFF", "USE_FBGEMM": "ON", "PTI": "x"})
    assert {name: item.on for name, item in found.items()} == {
        "BUILD_TEST": False, "USE_FBGEMM": True, "USE_MKLDNN": False, "USE_NUMA": False, "USE_XCCL": False,
        "USE_XPU": True,
    }  # fmt: skip
    assert found["USE_XPU"].reason == "requested", "the summary counts more than the cache"
    assert found["BUILD_TEST"].reason == "requested"
    assert found["USE_FBGEMM"].reason == found["USE_MKLDNN"].reason == "upstream's default"
    assert found["USE_NUMA"].reason.startswith(
        "CMake Warning at cmake/Dependencies.cmake:1230 (message): Not"
    )
    assert found["USE_NUMA"].reason.endswith("(line 1 of the log)")
    assert found["USE_XCCL"].reason == "changed by CMake; the log has no message about it"


def test_a_cache_that_is_not_there_has_no_entries(tmp_path: Path) -> None:
    assert read_cache(tmp_path) == {}
    (tmp_path / "CMakeCache.txt").write_text("//Use XPU\nUSE_XPU:BOOL=ON\nA:STRING= b = c \n", "utf-8")
    assert read_cache(tmp_path) == {"USE_XPU": "ON", "A": "b = c"}


def test_each_kind_of_tree_is_configured_by_its_own_build(tmp_path: Path) -> None:
    old = TreeKind(("pyproject.toml", "setup.py"), "setuptools.build_meta")
    assert configure_argv(old, "py", tmp_path, (), "w") == [
        "py",
        "setup.py",
        "build",
        "--cmake",
        "--cmake-only",
    ]
    new = TreeKind(("pyproject.toml",), "scikit_build_core.build")
    argv = configure_argv(new, "py", tmp_path, ("build-dir=b",), "w")
    settings = [argv[index + 1] for index, word in enumerate(argv) if word == "--config-settings"]
    assert settings == ["build-dir=b", "build.targets=help", "install.components=none"]
    other = TreeKind(("pyproject.toml",), "hatchling.build")
    with pytest.raises(RecipeError, match="cannot be configured without being built"):
        configure_argv(other, "py", tmp_path, (), "w")


@pytest.mark.parametrize(
    ("host", "said"), [("/usr/bin/g++", "SYCL commands (icx with g++)"), ("", "SYCL commands (icx)")]
)
def test_kernels_may_be_compiled_without_the_host_compiler(host: str, said: str) -> None:
    """As torch-xpu-ops does it since PR 2994: its scripts name no host compiler."""
    group = {
        "name": "torch_xpu_ops", "sources": ["one.cpp"], "aot": ["pvc"], "cxx11_abi": None, "preview": [],
        "compiler": "/one/bin/icx", "host_compiler": host, "host_standard": "20", "device_standard": "20",
    }  # fmt: skip
    document = {
        "target": "xpu", "verdict": "ok", "recipe": "main", "build": None, "log": "x.log",
        "sycl_files": 1, "sycl_groups": [group], "switches": [], "warnings": [],
    }  # fmt: skip
    (table,) = (part for part in rehearsal_view(document) if isinstance(part, Table) and part.items)
    assert table.title == said


def test_build_files_of_another_tree_prove_nothing(tmp_path: Path) -> None:
    build = tmp_path / "tree" / "build"
    build.mkdir(parents=True)
    (build / "build.ninja").touch()
    proof = ConfiguredProof(str(tmp_path / "tree"), (str(tmp_path / "none"), str(build)))
    for home, found in ((tmp_path, None), (tmp_path / "tree", build)):
        (build / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={home}\n", "utf-8")
        assert configured_folder(proof.source, proof.folders) == found
    assert proof.check() == {"build": str(build)}

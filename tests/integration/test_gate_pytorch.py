"""The XPU gate on PyTorch 2.6.0's own CMake files.

The tree is the distribution's source package: its submodules are stripped, so no configure of it ends well,
but it gets as far as PyTorch's summary. There is no SYCL compiler on test machines: the toolkit has
Intel's own headers and libraries and a stand-in for icx. The torch-xpu-ops that PyTorch clones while it is
configured is a stand-in, too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from integration import oneapi_standin
from support import oneapi_wheels, upstream
from support.cli import XPUBUILD, Result
from support.engine import Recorder, make_plan
from support.shared import folder_of_run

from xpubuild.artifacts.gate_rules import Expectation
from xpubuild.artifacts.gate_watcher import WatchStep
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Command, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import run_plan
from xpubuild.errors import BuildError, NoXpuError, XpuBuildError
from xpubuild.resources import recipes_dir

_OFF = (
    "USE_CUDA", "USE_ROCM", "USE_MKLDNN", "USE_DISTRIBUTED", "USE_KINETO", "USE_FBGEMM", "USE_XNNPACK",
    "USE_NNPACK", "USE_PYTORCH_QNNPACK", "USE_ITT", "BUILD_TEST",
)  # fmt: skip
MINIMAL = dict.fromkeys(_OFF, "0")
#: What PyTorch's setup.py, its CMake and its code generators need.
TOOLS = (
    "cmake",
    "ninja",
    "packaging",
    "pathspec",
    "pyyaml",
    "setuptools",
    "six",
    "typing-extensions",
    "wheel",
)
PYTORCHS_LINE = "Not compiling with XPU.  Could NOT find SYCL.Suppress this warning with"
OPS_URL = "https://github.com/intel/torch-xpu-ops.git"
OPS_CMAKE = """\
# stand-in for torch-xpu-ops
message(STATUS "Compile Intel GPU AOT Targets for $ENV{TORCH_XPU_ARCH_LIST}")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/standin.cpp "int torch_xpu_ops_standin;")
add_library(torch_xpu_ops STATIC ${CMAKE_CURRENT_BINARY_DIR}/standin.cpp)
"""


@dataclass(frozen=True)
class Tree:
    """PyTorch's tree as a git repository."""

    path: Path
    commit: str


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    into = tmp_path_factory.mktemp("upstream")
    path, commit = upstream.repository("pytorch", into, upstream.NOT_BUILT)
    return Tree(Path(path), commit)


def requirements() -> str:
    """Return the blocks of the release's own requirement file that a configure step needs."""
    text = (recipes_dir() / "requirements" / "torch-2.6-build.txt").read_text("utf-8")
    blocks = re.split(r"\n(?=[a-z])", text)
    return "\n".join(block for block in blocks if re.split("[= ]", block)[0] in TOOLS) + "\n"


def recipe(folder: Path, tree: Tree) -> Path:
    (folder / "tools.txt").write_text(requirements(), "utf-8")
    build = {"TORCH_XPU_ARCH_LIST": "{arch}", "PYTORCH_BUILD_VERSION": "2.6.0", "PYTORCH_BUILD_NUMBER": 1}
    # Any value keeps setup.py from looking for the submodules.
    build |= {"USE_SYSTEM_LIBS": 0, **MINIMAL}
    document: dict[str, Any] = {
        "schema": 1,
        "name": "gate",
        "title": "PyTorch 2.6.0 without its submodules",
        "release": "2.6.0",
        "target": "xpu",
        "arch": ["pvc"],
        "needs": {"oneapi": ">=2025.1,<2025.2", "oneapi_components": ["compiler"], "disk_gib": 1},
        "toolchain": {"requirements": ["tools.txt"]},
        "env": {"USE_XPU": "{xpu}"},
        "components": {
            "torch": {
                "kind": "source",
                "dist": "torch",
                "source": {"url": str(tree.path), "commit": tree.commit, "submodules": False},
                "build": {"env": build, "resume": True},
            }
        },
    }
    path = folder / "gate.yaml"
    path.write_text(yaml.safe_dump(document), "utf-8")
    return path


@dataclass(frozen=True)
class Install:
    """An install that ended, and its workspace."""

    result: Result
    workspace: Path

    @property
    def log(self) -> Path:
        return self.workspace / "logs" / "torch.wheel.log"


@pytest.fixture(scope="module")
def install(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> Install:
    """``xpubuild install`` for XPU with an installation of oneAPI that has no SYCL libraries."""
    folder = tmp_path_factory.mktemp("gate")
    root = oneapi_standin.build_root(folder / "oneapi")
    workspace = folder / "ws"
    arguments = [
        "install",
        str(recipe(folder, tree)),
        "--workspace",
        str(workspace),
        "--oneapi-root",
        str(root),
    ]
    done = subprocess.run(
        [*XPUBUILD, *arguments, "--json", "--log-format", "jsonl"],
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=800,
    )  # fmt: skip
    return Install(Result(done.returncode, done.stdout, done.stderr), workspace)


def test_install_for_xpu_without_a_sycl_compiler_stops(install: Install) -> None:
    assert install.result.status == 53, install.result.err[-3000:]
    error = install.result.document()["error"]
    assert error["code"] == "no-xpu"
    assert error["evidence"]["rule"] == "sycl-not-found"
    assert error["log"] == str(install.log)
    log = install.log.read_text("utf-8").split("\n")
    told = error["evidence"]["lines"]
    assert PYTORCHS_LINE in [item["text"].strip() for item in told]
    assert all(log[item["line"] - 1] == item["text"] for item in told), "verbatim, at the lines of the log"
    assert "compiler/2025.1" in error["why"]


def test_it_stopped_within_a_minute(install: Install) -> None:
    events = [json.loads(line) for line in install.result.err.splitlines() if line.startswith("{")]
    (configured,) = [item["time"] for item in events if item.get("line", "").endswith("(message):")][:1]
    (ended,) = [item for item in events if item["event"] == "step-finished" and item["step"] == "torch.wheel"]
    assert ended["status"] == "failed"
    assert ended["duration_s"] < 60
    assert ended["time"] - configured < 15, "from PyTorch's message to the end of the tree"


def test_it_is_explained_too(install: Install) -> None:
    error = install.result.document()["error"]
    findings = error["explanation"]["findings"]
    assert findings[0]["id"] == "configured-without-xpu"
    events = [json.loads(line) for line in install.result.err.splitlines() if line.startswith("{")]
    assert any(item["event"] == "notice" and "oneAPI was not found" in item["text"] for item in events)


@pytest.fixture(scope="module")
def ready(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the summary cannot be reached without, and one to build in.

    ``sycl`` has the headers and libraries that FindSYCLToolkit looks for, real ones; ``ops`` and a header
    of the tree are stand-ins.
    """
    folder = tmp_path_factory.mktemp("ready")
    shared = folder_of_run(tmp_path_factory)
    parts = oneapi_wheels.build(folder / "toolkit", shared, ["2025.0"], components=("compiler",), opencl=True)
    (folder / "sycl").symlink_to(parts.component("compiler"))
    header = tree.path / "third_party" / "pocketfft" / "pocketfft_hdronly.h"
    header.parent.mkdir(exist_ok=True)
    header.touch()
    ops = folder / "ops"
    ops.mkdir()
    (ops / "CMakeLists.txt").write_text(OPS_CMAKE, "utf-8")
    commit = upstream.commit_all(ops, "stand-in")
    (tree.path / "third_party" / "xpu.txt").write_text(f"{commit}\n", "utf-8")
    (folder / "build").mkdir()
    return folder


def configure(install: Install, tree: Tree, ready: Path, folder: Path) -> tuple[XpuBuildError, str]:
    """Configure the tree with CMake under the real engine; return how it failed, and the log."""
    build = ready / "build"
    env = {"SYCL_ROOT": str((ready / "sycl").resolve()), "TORCH_XPU_ARCH_LIST": "pvc"}
    switches = {**MINIMAL, "USE_XPU": "1", **env}
    defines = [f"-D{name}={value}" for name, value in {**MINIMAL, "USE_XPU": "1"}.items()]
    ours = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{ready / 'ops'}.insteadOf",
        "GIT_CONFIG_VALUE_0": OPS_URL,
    }
    tools = install.workspace / "env" / "bin"
    python = f"-DPython_EXECUTABLE={tools / 'python'}"
    command = Command(
        argv=(str(tools / "cmake"), "-GNinja", python, *defines, str(tree.path)),
        env={**ours, **env},
        cwd=str(build),
        path_prefix=(str(tools),),
    )
    expected = Expectation("2.6.0", switches, str(tree.path), str(install.workspace / "env"))
    step = Step(id="torch.wheel", title="configure", commands=(command,), watch=WatchStep(True, expected))
    with Journal(folder / "journal.db") as journal:
        journal.start_run("test", [], "0")
        outcome = run_plan(make_plan(folder, step), journal, sink=Recorder(), cancel=Cancel())
    (error,) = outcome.errors
    return error, (folder / "logs" / "torch.wheel.log").read_text("utf-8")


def test_with_a_sycl_toolkit_the_gate_is_passed(
    install: Install, tree: Tree, ready: Path, tmp_path: Path
) -> None:
    error, log = configure(install, tree, ready, tmp_path)
    assert isinstance(error, BuildError), error.what  # the submodules are missing, which is no matter of XPU
    assert not isinstance(error, NoXpuError)
    assert re.search(r"-- +USE_XPU +: (?:ON|1)", log)
    assert "Found SYCL" in log
    assert PYTORCHS_LINE not in log
    assert "USE_XPU:BOOL=1" in (ready / "build" / "CMakeCache.txt").read_text("utf-8")

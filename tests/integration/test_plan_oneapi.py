"""A release recipe on hosts with and without oneAPI; the installations are stand-ins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.cli import Xpubuild

from xpubuild.workspace.activation import assignments


@pytest.fixture
def xpubuild(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Xpubuild:
    return Xpubuild(capsys, monkeypatch)


def test_without_oneapi_it_stops_before_anything_is_made(xpubuild: Xpubuild, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    empty = tmp_path / "none"
    empty.mkdir()
    result = xpubuild("install", "2.8", "--workspace", str(workspace), "--oneapi-root", str(empty))
    assert result.status in (2, 40)
    assert str(empty) in result.err
    result = xpubuild("install", "2.8", "--workspace", str(workspace), HOME=str(tmp_path), ONEAPI_ROOT="")
    assert result.status == 40
    assert "oneAPI" in result.err
    assert "--target cpu" in result.err
    assert not workspace.exists()


@pytest.mark.parametrize("mode", ["components", "setvars"])
def test_its_environment_reaches_the_builds(xpubuild: Xpubuild, tmp_path: Path, mode: str) -> None:
    root = standin.build_root(tmp_path / "intel one é")
    standin.add_setvars(root)
    plan = xpubuild.json("plan", "2.8", "--oneapi-root", str(root), "--oneapi-mode", mode)
    steps = {step["id"]: step for step in plan["steps"]}
    *_, command = steps["torch.wheel"]["commands"]
    compiler = root.resolve() / "compiler"
    assert command["env"]["CMPLR_ROOT"].startswith(str(compiler))
    assert command["env"]["USE_XPU"] == "1"
    assert command["env"]["TORCH_XPU_ARCH_LIST"] == "pvc"
    assert str(root.resolve()) in command["env"]["LD_LIBRARY_PATH"]
    assert any(item.startswith(str(compiler)) for item in command["path_prefix"])
    assert command["path_prefix"][0].endswith("env/bin")
    assert command["env"]["CMAKE_PREFIX_PATH"].split(":")[0].endswith("/env")
    assert "CMPLR_ROOT" not in steps["toolchain"]["commands"][0]["env"]
    assert "--device" in steps["verify"]["commands"][0]["argv"]
    assert "xpu" in steps["verify"]["commands"][0]["argv"]
    other = xpubuild.json("plan", "2.8", "--oneapi-root", str(root), "--arch", "pvc,bmg")
    prints = {step["id"]: step["fingerprint"] for step in other["steps"]}
    assert prints["torch.wheel"] != steps["torch.wheel"]["fingerprint"]
    assert prints["torch.source"] == steps["torch.source"]["fingerprint"]


def test_of_two_lines_side_by_side_one_is_taken_whole(xpubuild: Xpubuild, tmp_path: Path) -> None:
    """oneCCL's script takes MPI from mpi/latest where none is set up, upstream's CMake mkl/latest."""
    root = standin.build_root(tmp_path / "oneapi", standin.BUNDLE_2025_1)
    standin.build_root(root, standin.BUNDLE_2025_3)
    plan = xpubuild.json("plan", "2.8", "--oneapi-root", str(root))
    *_, command = next(step for step in plan["steps"] if step["id"] == "torch.wheel")["commands"]
    assert command["env"]["CCL_ROOT"].endswith("ccl/2021.15")
    assert command["env"]["I_MPI_ROOT"].endswith("mpi/2021.15")
    assert command["env"]["MKLROOT"] == command["env"]["INTEL_MKL_DIR"] == f"{root.resolve()}/mkl/2025.1"
    assert f"{root.resolve()}/mkl" not in command["env"]["CMAKE_PREFIX_PATH"], (
        "the CPU's is the environment's"
    )
    assert not {"2021.17", "2025.3", "latest"}.intersection(str(command["env"]).replace("'", "/").split("/"))


def test_onemkl_beside_the_compiler_must_be_of_its_version(xpubuild: Xpubuild, tmp_path: Path) -> None:
    root = standin.build_root(tmp_path / "oneapi", standin.BUNDLE_2025_1)
    standin.remove(root / "mkl")
    result = xpubuild("plan", "2.8", "--oneapi-root", str(root))
    assert result.status == 40
    assert "lacks mkl" in result.err
    standin.add_component(root, "mkl", "2025.3")
    result = xpubuild("plan", "2.8", "--oneapi-root", str(root))
    assert result.status == 40
    said = " ".join(result.err.split())
    assert "the build would use mkl 2025.3 with the compiler 2025.1" in said
    assert "install mkl 2025.1; several versions can be installed in parallel" in said
    assert "latest" not in said


@pytest.mark.needs("g++")
def test_tcm_is_sourced_where_it_is_installed(xpubuild: Xpubuild, tmp_path: Path) -> None:
    """The adapter for Level Zero needs libumf, and that a library of another component."""
    root = standin.build_root(tmp_path / "oneapi", standin.BUNDLE_2025_1)
    standin.add_component(root, "tcm", "1.3")
    standin.add_component(root, "tcm", "1.4", latest=False)
    plan = xpubuild.json("plan", "2.8", "--oneapi-root", str(root))
    verify = next(step for step in plan["steps"] if step["id"] == "verify")
    assert f"{root.resolve()}/tcm/1.3/lib" in verify["commands"][0]["env"]["LD_LIBRARY_PATH"].split(":")


def test_activation_extends_what_the_shell_has(tmp_path: Path) -> None:
    receipt = {
        "activation": {
            "oneapi": {
                "set": {"CMPLR_ROOT": "/o"},
                "unset": [],
                "paths": {
                    "LD_LIBRARY_PATH": {"prepend": ["/o/lib"], "append": [], "remove": []},
                    "PATH": {"prepend": ["/o/bin"], "append": [], "remove": []},
                },
            }
        }
    }
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))
    once = assignments(tmp_path, {"PATH": "/bin", "LD_LIBRARY_PATH": "/mine"})
    assert once["LD_LIBRARY_PATH"] == "/o/lib:/mine"
    assert once["PATH"] == f"{tmp_path}/env/bin:/o/bin:/bin"
    assert once["CMPLR_ROOT"] == "/o"
    kept = {name: value for name, value in once.items() if value is not None}
    assert assignments(tmp_path, kept) == once

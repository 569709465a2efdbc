"""CC and CXX other than gcc and g++ of PATH: oneDNN takes g++ by name, icpx the newest GCC."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from support.cli import Xpubuild

from xpubuild.artifacts.step_proofs import LinksProof
from xpubuild.errors import ToolchainError
from xpubuild.workspace.activation import assignments


@pytest.fixture
def xpubuild(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Xpubuild:
    return Xpubuild(capsys, monkeypatch)


@pytest.fixture
def oneapi(tmp_path: Path) -> Path:
    return standin.build_root(tmp_path / "oneapi", standin.BUNDLE_2025_1)


def another_gcc(folder: Path) -> dict[str, str]:
    """Return CC and CXX that are programs of their own and compile as this machine's GCC does."""
    folder.mkdir()
    for name in ("gcc", "g++"):
        path = folder / f"{name}-other"
        path.write_text(f'#!/bin/sh\nexec {shutil.which(name)} "$@"\n')
        path.chmod(0o755)
    return {"CC": str(folder / "gcc-other"), "CXX": str(folder / "g++-other")}


def install_dir() -> str:
    said = subprocess.run(["g++", "-print-libgcc-file-name"], capture_output=True, text=True, check=True)
    return str(Path(said.stdout.strip()).parent.resolve())


def selects(oneapi: Path, folder: str) -> None:
    """Let the stand-in of icpx say which GCC it works with, as ``icpx -v`` does."""
    icpx = oneapi / "compiler/2025.1/bin/icpx"
    icpx.write_text(icpx.read_text() + f"echo 'Selected GCC installation: {folder}'\n")


def torch(plan: dict[str, Any]) -> dict[str, Any]:
    *_, command = next(step for step in plan["steps"] if step["id"] == "torch.wheel")["commands"]
    found: dict[str, Any] = command
    return found


@pytest.mark.needs("g++")
def test_the_chosen_compilers_are_found_by_their_plain_names(
    xpubuild: Xpubuild, oneapi: Path, tmp_path: Path
) -> None:
    other, workspace = another_gcc(tmp_path / "other"), tmp_path / "ws"
    args = ("plan", "2.8", "--oneapi-root", str(oneapi), "--workspace", str(workspace))
    default = oneapi / "compiler/2025.1/bin/icpx.cfg"
    default.write_text("-isystem /somewhere\n")
    plan = xpubuild.json(*args, **other)
    folder = workspace / "build/compilers"
    assert torch(plan)["path_prefix"][1] == str(folder)
    assert torch(plan)["env"]["ICPXCFG"] == str(folder / "icpx.cfg")
    assert torch(plan)["env"]["ICXCFG"] == str(folder / "icx.cfg")
    step = next(step for step in plan["steps"] if step["id"] == "compilers")
    for command in step["commands"]:
        subprocess.run(command["argv"], check=True)
    links = {str(folder / name): other[key] for name, key in (("gcc", "CC"), ("g++", "CXX"))}
    assert LinksProof(links).check() == {"links": links}
    says = subprocess.run([folder / "g++", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    assert says.strip()
    builds = [item for item in plan["steps"] if item["id"].endswith(".wheel")]
    assert builds
    assert all("compilers" in item["needs"] for item in builds)
    script = xpubuild(*args, "--format", "sh", **other).out
    assert f'@{default}\n--gcc-install-dir="{install_dir()}"\n' in script
    (folder / "g++").unlink()
    (folder / "g++").symlink_to("/bin/true")
    with pytest.raises(ToolchainError, match="does not lead to"):
        LinksProof(links).check()


@pytest.mark.needs("g++")
def test_icpx_is_told_only_where_it_would_take_another_gcc(
    xpubuild: Xpubuild, oneapi: Path, tmp_path: Path
) -> None:
    """A newer GCC without its C++ headers in the system's folder is what icpx takes by itself."""
    args = ("plan", "2.8", "--oneapi-root", str(oneapi))
    plan = xpubuild.json(*args)
    assert "ICPXCFG" not in torch(plan)["env"]
    assert "compilers" not in [step["id"] for step in plan["steps"]]
    selects(oneapi, install_dir())
    with_links = xpubuild.json(*args, **another_gcc(tmp_path / "other"))
    assert "ICPXCFG" not in torch(with_links)["env"]
    assert "compilers" in [step["id"] for step in with_links["steps"]]
    (oneapi / "compiler/2025.1/bin/icpx").unlink()
    standin.add_compilers(oneapi / "compiler/2025.1", "2025.1.1")
    selects(oneapi, str(tmp_path))
    told = xpubuild.json(*args)
    assert "ICPXCFG" in torch(told)["env"]
    assert "compilers" not in [step["id"] for step in told["steps"]]
    prints = [
        next(step for step in item["steps"] if step["id"] == "torch.wheel")["fingerprint"]
        for item in (plan, told)
    ]
    assert prints[0] != prints[1]


def test_an_exported_script_has_the_hashes_beside_it(xpubuild: Xpubuild, tmp_path: Path) -> None:
    plan = ("plan", "2.13", "--target", "cpu", "--workspace", str(tmp_path / "ws"), "--format", "sh")
    whole, file = xpubuild.ok(*plan).out, tmp_path / "to read" / "build.sh"
    file.parent.mkdir()
    said = xpubuild.ok(*plan, "--output", str(file)).out
    beside = file.with_name("build.sh.files")
    short, hashes = file.read_text("utf-8"), beside.read_text("utf-8")
    assert said == f"bash '{file}' [WORKSPACE]; it reads build.sh.files\n"
    assert "--hash" not in short
    assert len(short.splitlines()) < 250 < len(whole.splitlines())
    first, _, rest = whole.partition(hashes.rstrip("\n"))
    assert short.startswith(first)
    assert short.endswith(rest)
    run = ["bash", "build.sh", str(tmp_path / "other")]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHON": "/bin/false"}
    subprocess.run(run, cwd=file.parent, env=env, check=False, capture_output=True)
    (requirements,) = (tmp_path / "other" / "build" / "requirements").glob("torch*")
    assert requirements.read_text("utf-8").count("--hash") == whole.count("--hash")
    beside.write_text(hashes.replace("sha256:", "sha256:0", 1), "utf-8")
    done = subprocess.run(run, cwd=file.parent, env=env, check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "build.sh.files: FAILED" in done.stdout


# ---- A release recipe on hosts with and without oneAPI; the installations are stand-ins


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

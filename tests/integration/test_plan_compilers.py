"""CC and CXX other than gcc and g++ of PATH: oneDNN takes g++ by name, icpx the newest GCC."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from support.cli import Xpubuild

from xpubuild.artifacts.step_proofs import LinksProof
from xpubuild.errors import ToolchainError


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

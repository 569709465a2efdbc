"""How conda-lock and a conda executable are called, and what is said where they fail."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.said import answer, program, sleeper

from xpubuild.errors import XpuBuildError
from xpubuild.supply.conda import by_conda_lock
from xpubuild.supply.conda.channels import Channel
from xpubuild.supply.conda.engines import Engines, find_engines
from xpubuild.supply.conda.lockfile import write_lock
from xpubuild.supply.conda.model import CondaLock, CondaPackage
from xpubuild.supply.conda.solve import Wanted, make_lock

CHANNEL = Channel("https://me:secret-word@host.invalid/forge")
SPECS = ("cmake >=3.27", "ninja")
ENV = {"PATH": "/usr/bin:/bin", "CONDA_OVERRIDE_CUDA": "12"}
PACKAGE = CondaPackage(
    "cmake", "3.31", "h0", "cmake-3.31-h0.conda", "https://host.invalid/forge/linux-64/cmake-3.31-h0.conda",
    "1" * 64, "2" * 32,
)  # fmt: skip
TEXT = write_lock(CondaLock((PACKAGE,), ("conda-forge",), "0" * 64))


def solved(engines: Engines, scratch: Path) -> tuple[CondaPackage, ...]:
    scratch.mkdir(exist_ok=True)
    return by_conda_lock.solve(SPECS, [CHANNEL], engines, ENV, scratch)


def test_conda_lock_is_given_files_and_a_home_of_its_own(tmp_path: Path) -> None:
    tool = program(tmp_path, "conda-lock", f"cat >conda-lock.yml <<'END'\n{TEXT}\nEND")
    engines, scratch = Engines(conda="/c/mamba", conda_lock=tool.path), tmp_path / "scratch"
    assert solved(engines, scratch) == (PACKAGE,)
    (call,) = tool.calls()
    assert call["argv"] == [
        "lock", "--conda", "/c/mamba", "--file", str(scratch / "environment.yml"),
        "--lockfile", str(scratch / "conda-lock.yml"), "--platform", "linux-64",
        "--virtual-package-spec", str(scratch / "virtual.yml"), "--log-level", "ERROR",
    ]  # fmt: skip
    assert call["cwd"] == str(scratch)
    assert call["env"]["XDG_CACHE_HOME"] == str(scratch / "cache")
    assert call["env"]["CONDA_OVERRIDE_CUDA"] == ""
    assert yaml.safe_load((scratch / "environment.yml").read_text()) == {
        "channels": [CHANNEL.address], "dependencies": list(SPECS), "platforms": ["linux-64"],
    }  # fmt: skip
    assert yaml.safe_load((scratch / "virtual.yml").read_text()) == {
        "subdirs": {"linux-64": {"packages": {
            "__unix": "0", "__linux": "5.10", "__glibc": "2.28", "__archspec": "1 x86_64"}}},
    }  # fmt: skip
    assert {
        stat.S_IMODE((scratch / f"{name}.yml").stat().st_mode) for name in ("environment", "virtual")
    } == {0o600}


@pytest.mark.parametrize(
    "said",
    [
        "nothing provides secret-word\nCommand: x\nINFO y\n  Traceback z", "CondaHTTPError: HTTP 404 for url",
        "could not solve\nCould not resolve host: h", "PackagesNotFoundError: x", "something new\n\nmore",
        "Command: only this", "", "\n".join(f"conflict {number}" for number in range(15)),
        "Connection refused", "No candidates were found", "download error (28)", "is incompatible with",
        '{"error": 1}\nSTDOUT: a\nSTDERR: b\nraise c\n[DEBUG d\nFile "e"\nsubprocess.f', "ProxyError",
    ],
    ids=range(14),
)  # fmt: skip
def test_what_it_says_decides_what_is_told(tmp_path: Path, said: str) -> None:
    tool = program(tmp_path, "conda-lock", f"{answer(said)} >&2\nexit 1")
    with pytest.raises(XpuBuildError) as caught:
        solved(Engines(conda="/c/conda", conda_lock=tool.path), tmp_path / "scratch")
    assert "secret-word" not in json.dumps(caught.value.to_json())


def test_one_without_a_lock_one_that_hangs_and_one_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = program(tmp_path, "conda-lock", "true")
    with pytest.raises(XpuBuildError):
        solved(Engines(conda="/c/conda", conda_lock=quiet.path), tmp_path / "scratch")
    for engines in (Engines(conda="/c/conda"), Engines(conda_lock="/c/conda-lock")):
        with pytest.raises(XpuBuildError):
            solved(engines, tmp_path / "scratch")
    monkeypatch.setattr(by_conda_lock, "_DEADLINE_S", 0.3)
    slow = sleeper(tmp_path, "slow")
    with pytest.raises(XpuBuildError):
        solved(Engines(conda="/c/conda", conda_lock=slow.path), tmp_path / "scratch")


def test_conda_lock_comes_before_rattler(tmp_path: Path) -> None:
    tool = program(tmp_path, "conda-lock", f"cat >conda-lock.yml <<'END'\n{TEXT}\nEND")
    said: list[str] = []
    engines = Engines(conda="/c/micromamba", conda_lock=tool.path, rattler="/no/python")
    wanted = Wanted(("cmake",), (CHANNEL,))
    text = make_lock(wanted, engines, environment=ENV, cache=tmp_path / "cache", report=said.append)
    assert said == ["conda-lock solves with micromamba"]
    assert text == write_lock(CondaLock((PACKAGE,), (CHANNEL.shown,), wanted.content_hash()))


def test_programs_are_found_on_the_path_and_by_the_name_of_an_active_conda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, Any] = {}
    for name in ("conda", "mamba", "micromamba", "conda-lock"):
        made[name] = program(tmp_path / name, name).path
    monkeypatch.setattr("sys.executable", str(tmp_path / "bin" / "python"))
    paths = {name: str(tmp_path / name) for name in made}
    assert find_engines({"PATH": ":".join(paths.values())}).conda == made["micromamba"]
    assert find_engines({"PATH": f"{paths['conda']}:{paths['mamba']}"}).conda == made["mamba"]
    assert find_engines({"PATH": paths["conda-lock"]}).conda_lock == made["conda-lock"]
    nothing = find_engines({})
    assert (nothing.conda, nothing.conda_lock) == (None, None)
    assert find_engines({"CONDA_EXE": made["conda"], "MAMBA_EXE": made["mamba"]}).conda == made["mamba"]
    assert find_engines({"CONDA_EXE": made["conda"]}).conda == made["conda"]
    beside = program(tmp_path / "bin", "conda-lock").path
    assert find_engines({"PATH": paths["conda-lock"]}).conda_lock == beside

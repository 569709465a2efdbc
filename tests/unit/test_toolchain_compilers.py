"""Host compilers: the real ones, and stand-ins of versions that are not installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from xpubuild.errors import ToolchainError, UnsatisfiableError
from xpubuild.machine.compilers import choose_compilers, other_versions
from xpubuild.machine.system import OsFacts

DEBIAN = OsFacts(id="debian")


def stand_in(folder: Path, name: str, banner: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat >&2 <<'E'\n{banner}\nE\n")
    path.chmod(0o755)
    return path


def gcc(version: str) -> str:
    return f"Target: x86_64-linux-gnu\ngcc version {version} (stand-in)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cömpilers of mine"


def caller(folder: Path, **more: str) -> dict[str, str]:
    return {"PATH": f"{folder}{os.pathsep}/bin", **more}


def test_the_machines_own_gcc_is_the_default() -> None:
    chosen = choose_compilers(">=9", caller={"PATH": os.environ["PATH"]}, system=DEBIAN)
    assert chosen.env() == {"CC": shutil.which("gcc"), "CXX": shutil.which("g++")}
    relevant = chosen.relevant()
    assert relevant["cxx"].startswith("gcc ")
    assert chosen.cxx.version in relevant["cxx"]
    assert chosen.cxx.target in relevant["cxx"]


def test_cc_and_cxx_of_the_caller_win(folder: Path) -> None:
    for name in ("gcc-13", "g++-13"):
        stand_in(folder, name, gcc("13.2.0"))
    chosen = choose_compilers(
        ">=13", caller=caller(folder, CC=f"{folder}/gcc-13", CXX="g++-13"), system=DEBIAN
    )
    assert chosen.env() == {"CC": f"{folder}/gcc-13", "CXX": f"{folder}/g++-13"}


@pytest.mark.parametrize(
    ("variable", "name", "other"),
    [
        ("CXX", "g++-13", "gcc-13"),
        ("CC", "gcc-13", "g++-13"),
        ("CXX", "x86_64-linux-gnu-g++-13", "x86_64-linux-gnu-gcc-13"),
    ],
)
def test_of_one_alone_the_other_is_derived(folder: Path, variable: str, name: str, other: str) -> None:
    for item in (name, other, "gcc", "g++"):
        stand_in(folder, item, gcc("13.2.0"))
    chosen = choose_compilers(None, caller=caller(folder, **{variable: name}), system=DEBIAN)
    assert sorted(chosen.env().values()) == sorted([f"{folder}/{name}", f"{folder}/{other}"])


def test_another_gcc_is_named_by_its_major_version(folder: Path) -> None:
    for name in ("g++-9", "g++-11", "g++-12", "g++-13x"):
        stand_in(folder, name, "")
    path = f"/nowhere:{folder}"
    assert other_versions(">=9", path) == ("export CC=gcc-12 CXX=g++-12",)
    assert other_versions(">=9.5,<10", path) == ("export CC=gcc-9 CXX=g++-9",)
    assert other_versions(">=13", path) == ()


def test_too_old_is_refused_with_both_versions_and_the_package(folder: Path) -> None:
    for name in ("gcc", "g++"):
        stand_in(folder, name, gcc("8.5.0"))
    with pytest.raises(UnsatisfiableError) as caught:
        choose_compilers(">=900", caller=caller(folder), system=DEBIAN)
    error = caught.value
    assert error.exit_code == 22
    assert "GCC 8.5.0" in error.what
    assert ">=900" in error.what
    assert error.commands == ("sudo apt-get update", "sudo apt-get install -y gcc g++")


def test_a_fitting_gcc_beside_it_is_named(folder: Path) -> None:
    for name in ("gcc", "g++", "gcc-9", "g++-9"):
        stand_in(folder, name, gcc("9.4.0"))
    stand_in(folder, "g++-901", gcc("901.2.0"))
    with pytest.raises(UnsatisfiableError) as caught:
        choose_compilers(">=900", caller=caller(folder), system=DEBIAN)
    assert caught.value.commands == ("export CC=gcc-901 CXX=g++-901",)


def test_another_host_compiler_is_refused_where_gcc_is_needed(folder: Path) -> None:
    stand_in(folder, "icx", "Intel(R) oneAPI DPC++/C++ Compiler 2025.3.1 (stand-in)")
    stand_in(folder, "icpx", "Intel(R) oneAPI DPC++/C++ Compiler 2025.3.1 (stand-in)")
    environment = caller(folder, CC="icx", CXX="icpx")
    with pytest.raises(UnsatisfiableError, match=r"icx 2025\.3\.1") as caught:
        choose_compilers(">=9", caller=environment, system=DEBIAN)
    assert "reports no error" in caught.value.why
    assert "unset CC CXX" in caught.value.commands
    assert choose_compilers(None, caller=environment, system=DEBIAN).cxx.kind == "icx"


@pytest.mark.parametrize("value", ["/no/such/g++", "g++ -m64", "ccache g++"])
def test_cxx_that_is_not_one_program(folder: Path, value: str) -> None:
    stand_in(folder, "gcc", gcc("12.2.0"))
    with pytest.raises(ToolchainError, match="was not found") as caught:
        choose_compilers(">=9", caller=caller(folder, CXX=value, CC="gcc"), system=DEBIAN)
    assert caught.value.exit_code == 40
    assert "without options" in caught.value.fix
    assert caught.value.commands == ("unset CXX",)


def test_no_compiler_at_all_names_the_package(folder: Path) -> None:
    folder.mkdir()
    with pytest.raises(ToolchainError) as caught:
        choose_compilers(">=9", caller={"PATH": str(folder)}, system=OsFacts(id="fedora"))
    assert caught.value.commands == ("sudo dnf install -y gcc gcc-c++",)

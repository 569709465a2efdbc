"""Host compilers: the real ones, and stand-ins of versions that are not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from xpubuild.errors import ToolchainError, UnsatisfiableError
from xpubuild.install.environment_steps import CompleteProof
from xpubuild.machine.compilers import choose_compilers, other_versions
from xpubuild.machine.mkl import ARCHIVES, MklStaticProof
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


# ---- What a requirement file leaves out on purpose is not there, and nothing else is missing


LEFT_OUT = ("intel-openmp", "tbb")


def install(site: Path, name: str, version: str, *requires: str) -> None:
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {item}" for item in requires)]
    (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n\n")
    (info / "RECORD").write_text(f"{info.name}/METADATA,,\n{info.name}/RECORD,,\n")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    install(folder, "mkl-static", "2026.0.0", "intel-openmp>=2023", "TBB==2021.*", "mkl-include==2026.0.0")
    install(folder, "mkl-include", "2026.0.0")
    return folder


def proof(site: Path, *names: str, left_out: tuple[str, ...] = LEFT_OUT) -> CompleteProof:
    return CompleteProof(str(site), "3.12.3", ("mkl-static", "mkl-include", *names), left_out)


def test_it_says_who_declares_what_is_left_out(site: Path) -> None:
    assert proof(site).check() == {"left_out": {"intel-openmp": ["mkl-static"], "tbb": ["mkl-static"]}}


def test_a_dependency_that_nobody_left_out_is_missing(site: Path) -> None:
    with pytest.raises(ToolchainError, match="match the recipe's requirement files") as caught:
        proof(site, left_out=("tbb",)).check()
    assert "mkl-static 2026.0.0 needs intel-openmp>=2023, which is not installed" in caught.value.why


def test_another_version_is_told(site: Path) -> None:
    install(site, "jinja2", "3.1", "markupsafe>=2.0", "babel>=2.7; extra == 'i18n'")
    install(site, "markupsafe", "1.1")
    with pytest.raises(ToolchainError) as caught:
        proof(site, "jinja2").check()
    assert caught.value.why == "jinja2 3.1 needs markupsafe>=2.0, but 1.1 is installed"


def test_the_markers_are_those_of_the_environment_and_not_of_this_python(site: Path) -> None:
    install(site, "old", "1", 'tomli; python_version < "3.11"', 'newer; python_full_version >= "3.13"')
    proof(site, "old").check()
    with pytest.raises(ToolchainError, match="requirement files"):
        CompleteProof(str(site), "3.10.2", ("old",), ()).check()


def test_what_an_earlier_installation_left_is_found(site: Path) -> None:
    install(site, "tbb", "2021.13.1")
    with pytest.raises(ToolchainError) as caught:
        proof(site).check()
    assert "before the libraries of oneAPI" in caught.value.why
    assert caught.value.commands[0].endswith("env/bin/python -m pip uninstall --yes tbb")


def test_of_components_only_what_is_missing_counts(site: Path) -> None:
    install(site, "triton-xpu", "3.7.0", "pyelftools", "importlib-metadata; python_version < '3.10'", "tbb")
    names = ("triton-xpu", "not-here")
    with pytest.raises(ToolchainError) as caught:
        CompleteProof(str(site), "3.12.3", names, LEFT_OUT, of_components=True).check()
    assert caught.value.why == "triton-xpu 3.7.0 needs pyelftools, which is not installed"
    install(site, "pyelftools", "0.33")
    install(site, "tbb", "2022.1")
    found = CompleteProof(str(site), "3.12.3", names, LEFT_OUT, of_components=True).check()
    assert found == {"left_out": {"tbb": ["triton-xpu"]}}


# ---- The proof of the static MKL, on a stand-in of what the real packages install


HEADER = """#define __INTEL_MKL__          {year}
#define __INTEL_MKL_MINOR__    0
#define __INTEL_MKL_UPDATE__   {update}
#define INTEL_MKL_VERSION      {year}0{update}00
"""


@pytest.fixture
def env(tmp_path: Path) -> Path:
    """Lay out a stand-in with real (tiny) archives made by ar."""
    env = tmp_path / "my ënv"
    packages = env / "lib/python3.11/site-packages"
    for name in ("mkl_static", "mkl_include"):
        (packages / f"{name}-2026.2.0.dist-info").mkdir(parents=True)
    (env / "include").mkdir()
    (env / "include/mkl.h").write_text("")
    (env / "include/mkl_version.h").write_text(HEADER.format(year=2026, update=2))
    (tmp_path / "member.o").write_bytes(b"x")
    for name in ARCHIVES:
        subprocess.run(["ar", "qc", str(env / "lib" / name), str(tmp_path / "member.o")], check=True)
    return env


def test_evidence(env: Path) -> None:
    proof = MklStaticProof(str(env), "2026.2.0")
    evidence = proof.check()
    assert set(evidence["archives"]) == set(ARCHIVES)
    assert evidence["archives"]["libmkl_core.a"] == (env / "lib/libmkl_core.a").stat().st_size
    assert evidence["macros"]["__INTEL_MKL__"] == "2026"
    assert evidence["distributions"] == {"mkl_static": "2026.2.0", "mkl_include": "2026.2.0"}
    assert proof.describe() == "static MKL 2026.2.0 with its headers is installed"
    assert proof.key() != MklStaticProof(str(env), "2026.1.0").key()


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_missing_archive(env: Path, name: str) -> None:
    (env / "lib" / name).unlink()
    with pytest.raises(ToolchainError) as caught:
        MklStaticProof(str(env), "2026.2.0").check()
    assert f"lib/{name}" in caught.value.why
    assert caught.value.exit_code == 40


@pytest.mark.parametrize("content", [b"", b"!<arch>\n", b"\x7fELF"])
def test_a_damaged_archive(env: Path, content: bytes) -> None:
    (env / "lib/libmkl_core.a").write_bytes(content)
    with pytest.raises(ToolchainError) as caught:
        MklStaticProof(str(env), None).check()
    assert "not a static library" in caught.value.why


def test_headers_of_another_release(env: Path) -> None:
    (env / "include/mkl_version.h").write_text(HEADER.format(year=2025, update=3))
    with pytest.raises(ToolchainError) as caught:
        MklStaticProof(str(env), "2026.2.0").check()
    assert "MKL 2025.3, but 2026.2.0 is pinned" in caught.value.why
    MklStaticProof(str(env), None).check()


def test_a_package_of_another_patch_release(env: Path) -> None:
    packages = env / "lib/python3.11/site-packages"
    (packages / "mkl_static-2026.2.0.dist-info").rename(packages / "mkl_static-2026.2.1.dist-info")
    with pytest.raises(ToolchainError) as caught:
        MklStaticProof(str(env), "2026.2.0").check()
    assert "mkl_static is 2026.2.1" in caught.value.why

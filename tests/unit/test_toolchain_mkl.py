"""The proof of the static MKL, on a stand-in of what the real packages install."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from xpubuild.errors import ToolchainError
from xpubuild.machine.mkl import ARCHIVES, MklStaticProof

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

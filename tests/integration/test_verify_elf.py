"""What libraries need, as the check of linkage lists it, for libraries of a real compiler and linker."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from xpubuild.verify.suite.check_image import needed


def library(path: Path, *needs: Path, rpath: str = "", runpath: str = "") -> Path:
    """Build an empty library that needs others by their sonames."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["g++", "-shared", "-nostdlib", "-x", "c++", "/dev/null", "-x", "none", "-o", str(path)]
    words += [f"-Wl,-soname,{path.name}", "-Wl,--no-as-needed", *map(str, needs)]
    if rpath:
        words += ["-Wl,--disable-new-dtags", f"-Wl,-rpath,{rpath}"]
    if runpath:
        words += ["-Wl,--enable-new-dtags", f"-Wl,-rpath,{runpath}"]
    subprocess.run(words, check=True, capture_output=True)
    return path


@pytest.fixture(autouse=True)
def _no_library_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


def test_a_runpath_is_searched_and_not_handed_down(tmp_path: Path) -> None:
    last = library(tmp_path / "far" / "liblast.so")
    middle = library(tmp_path / "near" / "libmiddle.so", last)
    outer = library(tmp_path / "libouter.so", middle, runpath=f"$ORIGIN/near:{tmp_path}/far")
    found = needed([outer])
    assert found.found == {"libmiddle.so": middle}
    assert found.missing == {"liblast.so": outer}


def test_an_rpath_is_handed_down(tmp_path: Path) -> None:
    last = library(tmp_path / "far" / "liblast.so")
    middle = library(tmp_path / "near" / "libmiddle.so", last)
    outer = library(tmp_path / "libouter.so", middle, rpath=f"$ORIGIN/near:{tmp_path}/far")
    found = needed([outer])
    assert found.found == {"libmiddle.so": middle, "liblast.so": last}
    assert not found.missing


def test_the_library_path_and_neighbours_that_are_loaded_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = library(tmp_path / "b" / "libinner.so")
    outer = library(tmp_path / "libouter.so", inner)
    assert needed([outer]).missing == {"libinner.so": outer}
    assert not needed([outer, inner]).missing
    monkeypatch.setenv("LD_LIBRARY_PATH", str(inner.parent))
    assert needed([outer]).found == {"libinner.so": inner}


@pytest.mark.parametrize("cut", [3, 70, 400])
def test_what_is_damaged_is_said(tmp_path: Path, cut: int) -> None:
    whole = library(tmp_path / "libwhole.so")
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(whole.read_bytes()[:cut])
    (said,) = needed([broken]).damaged
    assert "libbroken.so" in said

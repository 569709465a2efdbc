"""Which libstdc++ the driver and the system of a made-up machine need."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.small_elf import library

from xpubuild.errors import AuditError
from xpubuild.supply.conda.libstdcxx import (
    DRIVER,
    FIRST_GCC,
    FOLDERS,
    STDLIB,
    CxxNeed,
    gcc_for,
    glibcxx,
    machine_need,
    newest,
    provided,
)


def test_the_newest_version_of_all_counts(tmp_path: Path) -> None:
    assert machine_need(tmp_path) is None
    folder = tmp_path / "usr" / "lib64"
    driver = library(folder / "libze_intel_gpu.so.1", wants={STDLIB: ["GLIBCXX_3.4.9", "GLIBCXX_3.4.26"]})
    assert machine_need(tmp_path) == CxxNeed("GLIBCXX_3.4.26", str(driver))
    system = library(tmp_path / "lib64" / STDLIB, defines=["GLIBCXX_3.4.9", "GLIBCXX_3.4.30", "CXXABI_1.3"])
    assert provided(system) == "GLIBCXX_3.4.30"
    assert machine_need(tmp_path) == CxxNeed("GLIBCXX_3.4.30", str(system))
    newer = library(folder / "libze_loader.so.1.2", wants={STDLIB: ["GLIBCXX_3.4.32"]})
    assert machine_need(tmp_path) == CxxNeed("GLIBCXX_3.4.32", str(newer))


def test_what_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "usr" / "lib64"
    whole = library(folder / "libze_loader.so.1", wants={STDLIB: ["GLIBCXX_3.4.32"]}).read_bytes()
    (folder / "libze_loader.so.1").write_bytes(whole[:200])
    (folder / STDLIB).write_bytes(whole[:200])
    library(folder / "libze_intel_gpu.so.1")
    library(tmp_path / "lib64" / STDLIB)
    assert machine_need(tmp_path) is None
    with pytest.raises(AuditError):
        provided(folder / STDLIB)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_of_a_distribution_is_looked_in(tmp_path: Path, folder: str) -> None:
    library(tmp_path / folder / STDLIB, defines=["GLIBCXX_3.4.30"])
    assert machine_need(tmp_path) is not None


def test_the_places_and_names() -> None:
    assert FOLDERS == (
        "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "usr/local/lib64", "lib64",
    )  # fmt: skip
    assert STDLIB == "libstdc++.so.6"
    assert DRIVER == ("libze_intel_gpu.so.1*", "libze_loader.so.1*")


def test_which_gcc_has_which_version_first() -> None:
    assert {number[2]: gcc for number, gcc in FIRST_GCC.items()} == {
        25: "8.1", 26: "9.1", 27: "9.2", 28: "9.3", 29: "11.1", 30: "12.1", 31: "13.1", 32: "13.2",
        33: "14.1",
        34: "15.1",
    }  # fmt: skip
    assert (gcc_for("GLIBCXX_3.4"), gcc_for("GLIBCXX_3.4.25"), gcc_for("GLIBCXX_3.4.35")) == (
        "8.1",
        "8.1",
        None,
    )
    assert (glibcxx("GLIBCXX_3.4.30"), glibcxx("GLIBCXX_LDBL_3.4")) == ((3, 4, 30), ())
    assert newest([]) is None

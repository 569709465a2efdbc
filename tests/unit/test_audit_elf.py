"""Reading shared objects: word sizes, byte orders, files that are no objects, and damage of every kind."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.artifacts import read_static_symbols, tiny_elf

from xpubuild.artifacts.elf import is_elf, read_shared_object
from xpubuild.errors import AuditError

SYMBOLS = [
    ("own_function", True),
    ("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", False),
    ("PyLong_Type", False),
]
TINY = tiny_elf(needed=["libc10.so", "libgrün.so.1"], symbols=SYMBOLS)


@pytest.mark.parametrize(("bits", "order"), [(64, "<"), (64, ">"), (32, "<"), (32, ">")])
def test_reads_every_word_size_and_byte_order(tmp_path: Path, bits: int, order: str) -> None:
    path = tmp_path / "libtiny.so"
    path.write_bytes(tiny_elf(bits=bits, order=order, needed=["libc10.so"], symbols=SYMBOLS))
    elf = read_shared_object(path)
    assert (elf.bits, elf.little_endian, elf.kind) == (bits, order == "<", "ET_DYN")
    assert elf.soname == "libtiny.so"
    assert elf.needed == ("libc10.so",)
    assert elf.symbols.defined == ("own_function",)
    assert elf.symbols.undefined == tuple(name for name, defined in SYMBOLS if not defined)
    assert elf.dynamic


def test_names_may_have_any_character(tmp_path: Path) -> None:
    path = tmp_path / "größe mit leer.so"
    path.write_bytes(TINY)
    assert read_shared_object(path).needed == ("libc10.so", "libgrün.so.1")


@pytest.mark.parametrize("data", [b"", b"\x7f", b"\x7fEL", b"#!/bin/sh\n", b"/* GNU ld script */"])
def test_what_is_no_object_is_said_to_be_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "libfake.so"
    path.write_bytes(data)
    assert not is_elf(path)
    with pytest.raises(AuditError, match=r"libfake\.so is damaged or not an ELF object") as caught:
        read_shared_object(path)
    assert caught.value.exit_code == 60
    assert caught.value.fix


def test_a_file_that_is_not_there_is_an_audit_error(tmp_path: Path) -> None:
    assert not is_elf(tmp_path / "gone.so")
    assert not is_elf(tmp_path)
    with pytest.raises(AuditError, match=r"gone\.so cannot be read"):
        read_shared_object(tmp_path / "gone.so")


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "cut.so"
    for length in range(len(TINY)):
        path.write_bytes(TINY[:length])
        with pytest.raises(AuditError):
            read_shared_object(path)


def test_a_symbol_without_a_name_in_the_table_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "names.so"
    first = 64 + 2 * 56 + 24
    for place in (len(TINY), 2**31):
        path.write_bytes(TINY[:first] + struct.pack("<I", place) + TINY[first + 4 :])
        with pytest.raises(AuditError, match=r"names\.so is damaged") as caught:
            read_shared_object(path)
        assert "outside its string table" in caught.value.why


def test_a_segment_that_ends_behind_the_file_is_a_cut_file(tmp_path: Path) -> None:
    path = tmp_path / "cut.so"
    filesz = 64 + 32
    path.write_bytes(TINY[:filesz] + struct.pack("<Q", len(TINY) + 1) + TINY[filesz + 8 :])
    with pytest.raises(AuditError) as caught:
        read_shared_object(path)
    assert (
        caught.value.why
        == f"a segment should end at byte {len(TINY) + 1}, but the file has {len(TINY)} bytes"
    )


def test_what_pyelftools_does_not_check_is_an_audit_error_too(tmp_path: Path) -> None:
    path = tmp_path / "strange.so"
    dynamic = struct.unpack_from("<Q", TINY, 64 + 56 + 8)[0]
    tags = [list(struct.unpack_from("<qQ", TINY, at)) for at in range(dynamic, len(TINY) - 15, 16)]
    for tag in tags:
        if tag[0] == 4:  # DT_HASH away: the number of symbols is then estimated from the other tags
            tag[0] = 0x6FFF0000
        elif tag[0] == 14:  # DT_SONAME far behind the end
            tag[1] = 2**62
    path.write_bytes(TINY[:dynamic] + b"".join(struct.pack("<qQ", *tag) for tag in tags))
    with pytest.raises(AuditError, match=r"strange\.so is damaged"):
        read_shared_object(path)


@pytest.mark.parametrize("value", [2**63 - 1, 2**64 - 1, 2**48, 2**32 - 1, len(TINY), 0])
def test_no_number_in_the_file_is_taken_on_trust(tmp_path: Path, value: int) -> None:
    path = tmp_path / "number.so"
    refused = 0
    for place in range(16, len(TINY) - 8, 4):
        path.write_bytes(TINY[:place] + struct.pack("<Q", value) + TINY[place + 8 :])
        try:
            read_shared_object(path)
        except AuditError:
            refused += 1
    assert refused > 20


def test_the_member_of_a_wheel_is_named_and_not_its_copy(tmp_path: Path) -> None:
    path = tmp_path / "object"
    path.write_bytes(TINY[:100])
    with pytest.raises(AuditError, match=r"^torch/lib/libc10\.so is damaged"):
        read_shared_object(path, name="torch/lib/libc10.so")


def test_without_a_static_table_there_are_no_static_symbols(tmp_path: Path) -> None:
    path = tmp_path / "tiny.so"
    path.write_bytes(TINY)
    assert read_static_symbols(path).local == ()


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damage_is_an_audit_error_or_harmless(data: st.DataObject) -> None:
    raw = bytearray(TINY)
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(4, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutated.so"
        path.write_bytes(bytes(raw))
        try:
            elf = read_shared_object(path)
            read_static_symbols(path)
        except AuditError:
            return
        assert len(elf.symbols.defined) < len(TINY)

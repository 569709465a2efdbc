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

"""Reading shared objects: word sizes, byte orders, files that are no objects, and damage of every kind."""

from __future__ import annotations

import string
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.artifacts import read_static_symbols, tiny_elf

from xpubuild.artifacts.abi import classify, old_abi_in
from xpubuild.artifacts.elf import Symbols, is_elf, read_shared_object
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
    assert (elf.bits, elf.little_endian) == (bits, order == "<")
    assert elf.soname == "libtiny.so"
    assert elf.needed == ("libc10.so",)
    assert elf.symbols.defined == ("own_function",)
    assert elf.symbols.undefined == tuple(name for name, defined in SYMBOLS if not defined)


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


# ---- The verdict on the C++ ABI: majority, strays, and what says nothing about an object


NEW_STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


def new(count: int) -> tuple[str, ...]:
    return tuple(f"_ZN5torch{len(name)}{name}ERK{NEW_STRING}" for name in (f"f{i}" for i in range(count)))


def old(count: int) -> tuple[str, ...]:
    return tuple(f"_ZN5torch{len(name)}{name}ERKSs" for name in (f"f{i}" for i in range(count)))


def test_a_lone_stray_does_not_flip_the_verdict() -> None:
    count = classify(Symbols(undefined=new(823) + old(1)))
    assert (count.verdict, count.new, count.old) == (1, 823, 1)
    count = classify(Symbols(undefined=old(823) + new(1)))
    assert count.verdict == 0


@pytest.mark.parametrize(("news", "olds", "verdict"), [(0, 0, None), (1, 0, 1), (5, 5, None), (2, 3, 0)])
def test_the_majority_decides(news: int, olds: int, verdict: int | None) -> None:
    assert classify(Symbols(defined=new(news), undefined=old(olds))).verdict == verdict


def test_without_strings_there_is_no_verdict() -> None:
    names = ("_ZN5torch7Session4stepEi", "PyLong_AsSsize_t", "malloc", "_ZNSt6vectorIiSaIiEE9push_backEOi")
    assert classify(Symbols(defined=names, undefined=names)).verdict is None


def test_copies_of_libstdcpp_in_the_object_do_not_count() -> None:
    copies = (
        f"_ZNSt13runtime_errorC1ERK{NEW_STRING}",
        f"_ZGTtNSt13runtime_errorC1ERK{NEW_STRING}",
        "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc",
        "_ZTVNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEE",
        # In each library of PyTorch that has a static copy.
        "_ZN9__gnu_cxxeqIPKcSsEEbRKNS_17__normal_iteratorIT_T0_EES8_",
    )
    assert classify(Symbols(defined=copies, local=copies)).verdict is None
    # grpcio 1.50 carries 195 of them beside its own old symbols, and is old.
    assert classify(Symbols(defined=copies * 40, undefined=old(3))).verdict == 0


def test_what_the_exceptions_of_libstdcpp_import_says_nothing() -> None:
    support = (
        "_ZNSs4_Rep20_S_empty_rep_storageE",
        "_ZNSs4_Rep10_M_destroyERKSaIcE",
        "_ZNSsC1EPKcRKSaIcE",
        "_ZNSsC1ERKSs",
        "_ZNSs6assignERKSs",
        "_ZNSs4swapERSs",
    )
    assert classify(Symbols(undefined=support)).verdict is None
    assert classify(Symbols(undefined=(*support, *new(1)))).verdict == 1


def test_imports_from_libstdcpp_count() -> None:
    assert classify(Symbols(undefined=("_ZNSs6appendEPKcm", "_ZNSt13runtime_errorC1ERKSs"))).old == 2
    assert classify(Symbols(undefined=(f"_ZNSt13runtime_errorC1ERK{NEW_STRING}",))).new == 1


def test_abi_tags_count_as_new() -> None:
    assert classify(Symbols(defined=("_ZNK4demo7Session4nameB5cxx11Ev",))).verdict == 1


def test_examples_lead_with_what_fails_at_load_time() -> None:
    count = classify(Symbols(defined=old(9), undefined=("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs",)))
    assert count.against(1)[0] == "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
    assert count.against(0) == ()
    assert len(count.old_examples) < count.old


# ---- ``Ss`` as a token of the grammar and as two letters of an identifier


OLD = [
    "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs",
    "_Z4joinRKSt6vectorISsSaISsEE",
    "_Z5countRKSt4listIiSaIiEE",
    "_ZNSs6appendEPKcm",
    "_ZNKSs7compareEPKc",
    "_ZNSt19basic_ostringstreamIcSt11char_traitsIcESaIcEED1Ev",
    "_ZTVSt18basic_stringstreamIcSt11char_traitsIcESaIcEE",
    "_ZNSt15basic_stringbufIcSt11char_traitsIcESaIcEE7_M_syncEPcmm",
    "_Z1wSbIwSt11char_traitsIwESaIwEE",
    "_ZNSt8functionIFvSsEEC1ERKS1_",
    "_Z1faSs",  # signed char and a string, not operator=
    "_Z1flSs",  # long and a string, not operator<<=
    "_ZN5torch3jit12setGraphNameENSt10shared_ptrIKNS0_5GraphEEESs.constprop.0",
    "_ZTSPFvRKSsbE",
    "_ZZN1a1bERKSsE1c",
    "_ZThn16_N1a1bERKSs",
    "_Z1fILj10EEvSs",
    "_Z1fILN3c1010ScalarTypeE6EEvSs",
    "_ZN1aC1ERKSsS2_",
    "_ZN1acvSsEv",
    "_Z1fA10_Ss",
    "_Z1fM1aKFSsvE",
    "_ZNO1a1bEDpOSs",
    "_ZGTtNSt13runtime_errorC1ERKSs",
]
NOT_OLD = [
    "_ZN5torch7Session4stepEi",
    "_ZN7Session3SsSEv",
    "_Z10PassSsToken",
    "_ZN2SsC1Ev",
    "_ZN1aaSERKS_",
    "_Z2SsNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc",
    "_ZNSt6vectorIiSaIiEE9push_backEOi",
    "_ZN12_GLOBAL__N_13SsaE",
    "_ZZN1a1bEvENKUlT_E_clI3SsbEEDaS0_",
    "_ZN1aIJEE4SStsEv",
    # Each pair is made of two of the one before: written out it would have 2**30 letters.
    "_Z1f1aIiiE" + "".join(f"S_IS{number}_S{number}_E" for number in "0123456789ABCDEFGHIJKLMNOPQRST"),
    # What does not parse is no evidence.
    "PyLong_AsSsize_t",
    "Ss",
    "_Z",
    "_ZSs7",
    "_Z99999999999999999999Ss",
    "_ZGRN1a1bE+",
    "_Z1fILi5*EEvSs",
    "_Z" + "9" * 6000 + "Ss",
    "_Z4joinSs@GLIBCXX_3.4",
    "_Z4joinSsE",
    "_ZN1aSs",
    "_Z1f" + "PK" * 20000,
    "_Z1f" + "St6vectorI" * 20000,
    "_ZN6fbgemm13arrayToStringILi2EEEvRKSt5arrayIT0_XT_EESs",
]


@pytest.mark.parametrize("name", OLD)
def test_the_old_string_is_found(name: str) -> None:
    assert old_abi_in(name) is True


@pytest.mark.parametrize("name", NOT_OLD, ids=lambda name: name[:30])
def test_letters_of_an_identifier_are_no_token(name: str) -> None:
    assert old_abi_in(name) is False


IDENTIFIER = st.text(string.ascii_letters + "_", min_size=1, max_size=12).map(lambda text: f"{text}Ss{text}")


def _mangled(parts: list[str]) -> str:
    return "".join(f"{len(part)}{part}" for part in parts)


@settings(deadline=None)
@given(
    st.lists(IDENTIFIER, min_size=1, max_size=4), st.sampled_from(["i", "PKc", "RKS_", "St6vectorIiSaIiEE"])
)
def test_identifiers_never_count(parts: list[str], parameter: str) -> None:
    assert old_abi_in(f"_ZN{_mangled(parts)}E{parameter}") is False


@settings(deadline=None)
@given(
    st.lists(IDENTIFIER, min_size=1, max_size=4),
    st.sampled_from(["Ss", "RKSs", "St6vectorISsSaISsEE", "iSs"]),
)
def test_a_parameter_always_counts(parts: list[str], parameter: str) -> None:
    assert old_abi_in(f"_ZN{_mangled(parts)}E{parameter}") is True


@settings(deadline=None)
@given(st.text("_ZNSsStKEILT0123456789abcdvPRIJXDUlFM.", max_size=60))
def test_no_text_is_too_strange(text: str) -> None:
    assert old_abi_in(f"_Z{text}") in (True, False)

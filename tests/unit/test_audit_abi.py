"""The verdict on the C++ ABI: majority, strays, and what says nothing about an object."""

from __future__ import annotations

import pytest

from xpubuild.artifacts.abi import classify
from xpubuild.artifacts.elf import Symbols

NEW_STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


def new(count: int) -> tuple[str, ...]:
    return tuple(f"_ZN5torch{len(name)}{name}ERK{NEW_STRING}" for name in (f"f{i}" for i in range(count)))


def old(count: int) -> tuple[str, ...]:
    return tuple(f"_ZN5torch{len(name)}{name}ERKSs" for name in (f"f{i}" for i in range(count)))


def test_a_lone_stray_does_not_flip_the_verdict() -> None:
    count = classify(Symbols(undefined=new(823) + old(1)))
    assert (count.verdict, count.new, count.old, count.mixed, count.confidence) == (1, 823, 1, False, "high")
    count = classify(Symbols(undefined=old(823) + new(1)))
    assert (count.verdict, count.mixed) == (0, False)


@pytest.mark.parametrize(
    ("news", "olds", "verdict", "mixed", "confidence"),
    [
        (0, 0, None, False, "none"),
        (1, 0, 1, False, "low"),
        (0, 5, 0, False, "high"),
        (5, 5, None, True, "none"),
        (100, 10, 1, False, "high"),
        (100, 11, 1, True, "low"),
        (2, 3, 0, True, "low"),
    ],
)
def test_majority_and_confidence(
    news: int, olds: int, verdict: int | None, mixed: bool, confidence: str
) -> None:
    count = classify(Symbols(defined=new(news), undefined=old(olds)))
    assert (count.verdict, count.mixed, count.confidence) == (verdict, mixed, confidence)


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

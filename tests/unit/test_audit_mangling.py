"""``Ss`` as a token of the grammar and as two letters of an identifier."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpubuild.artifacts.abi import old_abi_in

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

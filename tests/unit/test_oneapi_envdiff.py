"""The typed difference of two environments: laws that hold for any pair, and the cases oneAPI brings."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from xpubuild.machine import envdiff
from xpubuild.machine.envdiff import EnvDiff, PathChange, apply, diff, normalise

_ENTRY = st.sampled_from(["/a", "/b", "/c d", "/é", "", "%l/%t", "relative"])
_PATHS = st.lists(_ENTRY, max_size=6).map(":".join)
_PATH_NAMES = st.sampled_from(["PATH", "LD_LIBRARY_PATH", "MANPATH", "CPATH"])
_PLAIN_NAMES = st.sampled_from(
    ["CMPLR_ROOT", "I_MPI_ROOT", "X", "SHLVL", "_", "SETVARS_COMPLETED", "BASH_FUNC_f%%"]
)
_TEXT = st.text(st.characters(exclude_characters="\0"), max_size=8)
_ENVIRONMENT = st.builds(
    lambda paths, plain: {**paths, **plain},
    st.dictionaries(_PATH_NAMES, _PATHS),
    st.dictionaries(_PLAIN_NAMES, _TEXT),
)


@given(_ENVIRONMENT, _ENVIRONMENT)
@example({"PATH": "/a:/b:/c d"}, {"PATH": "/c d:/a:/b"})
@example({"PATH": "/a:/b"}, {"PATH": "/é:/a:relative:/b:/c d"})
@example({"MANPATH": "/a"}, {"MANPATH": "/b:/a:"})
def test_applying_the_difference_gives_the_other_environment(
    before: dict[str, str], after: dict[str, str]
) -> None:
    assert normalise(apply(diff(before, after), before)) == normalise(after)


@given(_ENVIRONMENT, _ENVIRONMENT)
def test_json_round_trip(before: dict[str, str], after: dict[str, str]) -> None:
    difference = diff(before, after)
    again = envdiff.from_json(json.loads(json.dumps(difference.to_json())))
    assert again == difference
    assert again.digest() == difference.digest()


def test_entries_in_front_and_behind_are_told_apart() -> None:
    difference = diff({"PATH": "/usr/bin:/bin"}, {"PATH": "/one/bin:/usr/bin:/bin:/one/late"})
    assert difference.paths == {"PATH": PathChange(prepend=("/one/bin",), append=("/one/late",))}
    assert apply(difference, {"PATH": "/venv/bin:/usr/bin"}) == {
        "PATH": "/one/bin:/venv/bin:/usr/bin:/one/late"
    }


def test_an_entry_that_went_away_is_taken_out_elsewhere_too() -> None:
    difference = diff({"PATH": "/old:/bin"}, {"PATH": "/new:/bin"})
    assert apply(difference, {"PATH": "/old:/venv:/bin"}) == {"PATH": "/new:/venv:/bin"}


def test_empty_entry_is_the_current_folder_and_dropped_except_where_it_means_the_default() -> None:
    difference = diff({}, {"LD_LIBRARY_PATH": "/one/lib:", "MANPATH": "/one/man:"})
    assert apply(difference, {}) == {"LD_LIBRARY_PATH": "/one/lib", "MANPATH": "/one/man:"}


def test_unset_variables_are_unset_elsewhere() -> None:
    difference = diff({"X": "1", "CPATH": "/a"}, {})
    assert difference == EnvDiff(unset=("CPATH", "X"))
    assert apply(difference, {"X": "2", "CPATH": "/b", "Y": "3"}) == {"Y": "3"}


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"set": {"A": 1}, "unset": [], "paths": {}},
        {"set": {}, "unset": "A", "paths": {}},
        {"set": {}, "unset": [], "paths": {"PATH": {"prepend": [1], "append": [], "remove": []}}},
        {"set": {}, "unset": [], "paths": {"PATH": []}},
    ],
)
def test_a_document_of_another_shape_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        envdiff.from_json(document)

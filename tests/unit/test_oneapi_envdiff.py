"""The typed difference of two environments: laws that hold for any pair, and the cases oneAPI brings."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from integration import oneapi_standin as standin

from xpubuild.errors import UsageError
from xpubuild.machine import envdiff
from xpubuild.machine.envdiff import EnvDiff, PathChange, apply, diff, normalise
from xpubuild.machine.host_report import host_report
from xpubuild.machine.oneapi_installed import candidates, find_installations

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


# ---- Finding oneAPI: the places and their order, both layouts, links, unpacked images


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api é"


def listed(place: Path) -> list[tuple[str, str, bool]]:
    (found,) = find_installations(place, {})
    return [(item.name, item.version, item.is_latest) for item in found.components]


def test_the_order_of_places_and_the_same_folder_once(place: Path) -> None:
    for folder in ("opt/intel/oneapi", "home/user/intel", "soft/oneapi"):
        standin.build_root(place / folder)
    (place / "home/user/intel/oneapi").symlink_to("/soft/oneapi")
    environment = {"ONEAPI_ROOT": "/soft/oneapi", "HOME": "/home/user"}
    found = find_installations(None, environment, root=place)
    assert [item.origin for item in found] == ["ONEAPI_ROOT", "the system's place"]
    assert found[0].real == place / "soft" / "oneapi"
    for value in ("/nowhere", "relative/oneapi", ""):
        (one,) = find_installations(None, {"ONEAPI_ROOT": value}, root=place)
        assert one.origin == "the system's place"
    assert [str(path) for path, _ in candidates({"HOME": "/h", "ONEAPI_ROOT": "/o"})] == [
        "/o", "/opt/intel/oneapi", "/h/intel/oneapi",
    ]  # fmt: skip


def test_explicit_is_the_only_one_and_may_be_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = standin.build_root(tmp_path / "own é")
    other = standin.build_root(tmp_path / "other")
    monkeypatch.chdir(tmp_path)
    (found,) = find_installations(Path("own é"), {"ONEAPI_ROOT": str(other)})
    assert found.real == own.resolve()


def test_a_wrong_explicit_root_says_what_was_looked_for(tmp_path: Path) -> None:
    standin.build_root(tmp_path / "good")
    (tmp_path / "empty folder").mkdir()
    for name in ("missing", "empty folder"):
        with pytest.raises(UsageError) as caught:
            find_installations(tmp_path / name, {"ONEAPI_ROOT": str(tmp_path / "good")})
        assert str(tmp_path / name) in caught.value.what
        assert "env/vars.sh" in caught.value.why
        assert "/opt/intel/oneapi" in caught.value.fix


def test_versions_are_those_behind_the_links(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "compiler", "2025.3", latest=False)
    standin.add_component(place, "compiler", "2024.10", latest=False)
    (place / "licensing" / "2025.1").mkdir(parents=True)
    assert listed(place) == [
        ("ccl", "2021.15", True),
        ("compiler", "2025.3", False),
        ("compiler", "2025.1", True),
        ("compiler", "2024.10", False),
        ("mkl", "2025.1", True),
        ("mpi", "2021.15", True),
        ("pti", "0.12", True),
        ("umf", "0.10", True),
    ]


def test_a_copy_without_links_has_no_known_version(place: Path) -> None:
    standin.add_component(place, "compiler", "latest", latest=False)
    assert listed(place) == [("compiler", "latest", True)]


def test_the_unified_layout(place: Path) -> None:
    toolkit = standin.build_unified(place, "2025.1", ["compiler", "mkl"])
    behind = standin.write(place / "ccl" / "2021.15" / "etc" / "ccl" / "vars.sh", "")
    (place / "2025.1" / "etc" / "ccl").symlink_to(behind.parent)
    (found,) = find_installations(place, {})
    assert {(item.name, item.version, item.layout) for item in found.components} == {
        ("compiler", "2025.1", "unified"),
        ("mkl", "2025.1", "unified"),
        ("ccl", "2021.15", "unified"),
    }
    assert all(item.path == toolkit.resolve() for item in found.components)
    (named,) = find_installations(toolkit, {})
    assert (found.toolkit, named.toolkit, named.real) == (None, "2025.1", found.real)


@pytest.mark.needs("root")
def test_what_cannot_be_searched_counts_as_none(tmp_path: Path) -> None:
    place = standin.build_root(tmp_path / "opt" / "intel" / "oneapi")
    place.chmod(0o700)
    tmp_path.chmod(0o755)
    try:
        os.seteuid(65534)
        assert find_installations(None, {"HOME": str(tmp_path)}, root=tmp_path) == ()
        with pytest.raises(UsageError, match="is not a oneAPI installation"):
            find_installations(place, {})
    finally:
        os.seteuid(0)
    assert host_report(tmp_path, oneapi_root=tmp_path / "missing").oneapi == ()

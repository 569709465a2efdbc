"""Submodules are taken from a commit only where name, path and URL cannot do harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.git.pin import problem_with
from xpubuild.supply.git.submodules import Link, links_of

_ID = "0" * 39 + "1"
_BASE = "https://h.example/a/top.git"


def _links(path: str, name: str, url: str, base: str = _BASE) -> tuple[Link, ...]:
    return links_of({path: _ID}, {name: {"path": path, "url": url}}, base, "the test")


def test_an_ordinary_submodule_is_resolved() -> None:
    assert _links("third_party/x", "third_party/x", "../x.git") == (
        Link("third_party/x", "third_party/x", "https://h.example/a/x.git", _ID),
    )


def test_sections_without_a_gitlink_are_ignored_as_git_does() -> None:
    assert links_of({}, {"old": {"path": "old", "url": "ext::sh"}}, _BASE, "the test") == ()


@pytest.mark.parametrize(
    "name", ["..", "../../hooks", "a/../b", "a\\..\\b", "-x", "/a", "a//b", "", "x\n", "."]
)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(SourceIntegrityError, match="is not accepted") as caught:
        _links("s", name, "../x.git")
    assert "name" in caught.value.why


@pytest.mark.parametrize("path", ["../x", "/etc", "a/../../x", "-x", ".git/hooks", "a/.GIT/x", "a//b", "./x"])
def test_a_path_out_of_the_tree_is_refused(path: str) -> None:
    with pytest.raises(SourceIntegrityError, match="is not accepted"):
        _links(path, "s", "../x.git")


@pytest.mark.parametrize(
    "url",
    [
        "-u./payload",
        "--upload-pack=id",
        "ext::sh -c id",
        "",
        "../../../../etc",
        "/etc/secret",
        "file:///home/user/private",
        "x/y",
        "https://h/x\nhost=evil",
        "../x\n",
    ],
)
def test_a_url_that_does_harm_is_refused(url: str) -> None:
    with pytest.raises(SourceIntegrityError, match="is not accepted") as caught:
        _links("s", "s", url)
    assert caught.value.exit_code == 31
    assert caught.value.evidence["submodule"] == "s"


def test_a_local_folder_is_accepted_where_the_parent_is_local() -> None:
    assert _links("s", "s", "../x.git", "file:///srv/top.git")[0].url == "file:///srv/x.git"
    assert _links("s", "s", "/srv/x", "/srv/top")[0].url == "/srv/x"


def test_a_gitlink_that_gitmodules_does_not_name_is_refused() -> None:
    with pytest.raises(SourceIntegrityError) as caught:
        links_of({"s": _ID}, {"other": {"path": "t", "url": "../x"}}, _BASE, "the test")
    assert "is not in .gitmodules" in caught.value.why


def test_a_repository_inside_that_of_another_is_refused() -> None:
    sections = {"a": {"path": "a", "url": "../a"}, "a/hooks": {"path": "b", "url": "../b"}}
    with pytest.raises(SourceIntegrityError, match="is not accepted"):
        links_of({"a": _ID, "b": _ID}, sections, _BASE, "the test")
    sections = {"a": {"path": "a", "url": "../a"}, "a-b": {"path": "b", "url": "../b"}}
    assert len(links_of({"a": _ID, "b": _ID}, sections, _BASE, "the test")) == 2


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=60))
def test_whatever_the_file_says_the_result_is_harmless_or_an_error(path: str, name: str, url: str) -> None:
    try:
        found = _links(path, name, url)
    except SourceIntegrityError:
        return
    for link in found:
        assert problem_with(link.url) is None
        for place in (link.path, link.name):
            assert not place.startswith(("/", "-"))
            assert ".." not in place.split("/")

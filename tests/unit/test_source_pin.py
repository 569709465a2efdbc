"""A pin is a full object id and a harmless URL, or it is refused with exit code 20."""

from __future__ import annotations

import pytest

from xpubuild.errors import RecipeError
from xpubuild.supply.git.pin import Pin

_SHA1 = "0123456789" * 4
_SHA256 = "ab" * 32


def test_the_key_tells_trees_apart_and_not_the_ways_to_them() -> None:
    one = Pin("https://h.example/x.git", _SHA1)
    assert one.key() == Pin("https://mirror.example/x", _SHA1, ref="main").key()
    assert one.key() != Pin(one.url, _SHA1, submodules=False).key()
    assert one.key() != Pin(one.url, "f" * 40).key()


@pytest.mark.parametrize(
    "commit", ["main", "v2.8.0", _SHA1[:12], _SHA1.upper().replace("0", "A"), _SHA1 + "\n", ""]
)
def test_what_is_no_full_id_is_refused(commit: str) -> None:
    with pytest.raises(RecipeError, match="not a full object id") as caught:
        Pin("https://h.example/x", commit)
    assert caught.value.exit_code == 20
    assert caught.value.fix


def test_a_tree_of_the_other_hash_is_refused() -> None:
    with pytest.raises(RecipeError, match="not a full object id"):
        Pin("https://h.example/x", _SHA1, tree=_SHA256)


@pytest.mark.parametrize(
    "ref", ["--upload-pack=id", "-x", "a..b", "a b", "x.lock", "@{u}", "/x", "a//b", "x/", "a:b", ""]
)
def test_a_ref_that_git_would_read_otherwise_is_refused(ref: str) -> None:
    with pytest.raises(RecipeError, match="not a tag or branch name"):
        Pin("https://h.example/x", _SHA1, ref=ref)


def test_what_is_skipped_is_part_of_the_pin() -> None:
    plain, less = Pin("https://h/r.git", "a" * 40), Pin("https://h/r.git", "a" * 40, skip=("third_party/x",))
    assert "skip" not in plain.key()
    assert less.key()["skip"] == ["third_party/x"]


@pytest.mark.parametrize("path", ["/etc", "-x", "../x", "a//b", ""])
def test_a_path_to_skip_lies_below_the_top(path: str) -> None:
    with pytest.raises(RecipeError, match="skips"):
        Pin("https://h/r.git", "a" * 40, skip=(path,))

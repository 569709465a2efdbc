"""The commit of a checkout, and texts of its files, held against a recipe."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.recipe_trees import OTHER, found, write_tree

from xpubuild.recipe.setup_py import requires_python
from xpubuild.recipe.tree_text import has_word, pinned_by, read_text, same_release, same_version

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "init.defaultBranch=main")


def git(tree: Path, *words: str) -> str:
    done = subprocess.run([*GIT, *words], cwd=tree, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_commit_that_is_checked_out(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "tree")
    git(tree, "init", "--quiet")
    assert found(tree, source={"commit": OTHER}).not_checked[-1] == "commit: the checkout has none"
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "x")
    head = git(tree, "rev-parse", "HEAD")
    report = found(tree)
    assert report.found["commit"] == head
    assert report.not_checked[-1] == f"commit: it is {head}, the recipe leaves it open"
    report = found(tree, source={"commit": head})
    assert (report.problems, report.compared[-1]) == ([], "commit")
    assert found(tree, source={"commit": OTHER}).problems == [
        f"the tree is at commit {head}, but components.torch.source.commit is {OTHER}"
    ]


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("two words")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "latin").write_bytes(b"ab\xe9")
    (tmp_path / "large").write_bytes(b"x" * ((1 << 20) + 1))
    (tmp_path / "full").write_bytes(b"x" * (1 << 20))
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "out").symlink_to("/etc")
    said = {
        "pipe": "it is not a regular file", "latin": "it is not UTF-8 (byte 2)", ".": "it is a folder",
        "large": "it is larger than 1 MiB", "gone": "it is a broken link",
        "out/hostname": "it is outside the tree",
        "a\0b": "its name is not a valid file name", "x" * 300: "File name too long",
    }  # fmt: skip
    assert {name: read_text(tmp_path, name).problem for name in said} == said
    assert read_text(tmp_path, "full").problem is None
    for name in ("none", "a/b"):
        assert (read_text(tmp_path, name).problem, read_text(tmp_path, name).text) == (None, None)
    assert (read_text(tmp_path, "a").word(), read_text(tmp_path, "none").word()) == ("two", None)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (" one\n", "one"), ("", None), ("two words", None), ("set(GIT_TAG v1 )", "v1"), ('GIT_TAG "v1" x',
         "v1"),
        ("GIT_TAG v1\nGIT_TAG v1\n", "v1"), ("GIT_TAG v1\nGIT_TAG v2\n", None), ("MY_GIT_TAG v1 x", None),
    ],
)  # fmt: skip
def test_what_a_pin_file_names(text: str, word: str | None) -> None:
    assert pinned_by(text) == word


@pytest.mark.parametrize(
    ("text", "has"),
    [("v1.2", True), ("(v1.2)", True), ("v1.2.3", False), ("v1.2.", True), ("xv1.2", False), ("v1.2-rc",
     False),
     ("a/v1.2", False), ("v1.2/a", False), (".v1.2", False), ("v1x2", False)],
)  # fmt: skip
def test_words_of_a_text(text: str, has: bool) -> None:
    assert has_word(text, "v1.2") is has


def test_versions_and_what_is_none() -> None:
    assert same_version("1.0", "1.0.0")
    assert same_version("main", "main")
    assert not same_version("main", "1.0")
    assert not same_version("1.0", "main")
    assert not same_version("1.0", "1.0a0")
    assert same_release("1.0a0", "1.0.0+cpu")
    assert same_release("main", "main")
    assert not same_release("main", "1.0")
    assert not same_release("1.0", "1.1")


def test_a_requirement_without_a_file(tmp_path: Path) -> None:
    assert vars(requires_python(tmp_path)) == {"file": "", "text": None, "problem": None, "note": None}
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "setup.py").write_text("setup(python_requires='>=3.7')")
    assert requires_python(tmp_path, "python").file == "python/setup.py"

"""A recipe against the tree it pins: every disagreement names the file and both values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.cli import Xpubuild
from support.documents import check
from support.recipe_trees import OTHER, PIN, found, recipe, write_tree

from xpubuild.errors import RecipeError, UsageError
from xpubuild.recipe.tree import RecipeTreeProof, check_tree, require_tree
from xpubuild.recipe.tree_expected import expected


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "tree")


def test_a_recipe_that_agrees(tree: Path) -> None:
    report = found(tree)
    assert report.problems == []
    assert report.not_checked == ["commit: the tree is not a git checkout"]
    assert report.found == {
        "version": "2.6.0a0",
        "requires_python": ">=3.9.0",
        "pins": [{"file": "third_party/xpu.txt", "url": "/ops", "commit": PIN}],
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"source": {"version": "2.7.0a0"}}, ("version.txt", "2.6.0a0", "2.7.0a0")),
        ({"source": {"version": None}, "release": "2.6.1"}, ("version.txt", "2.6.0a0", "2.6.1")),
        ({"source": {"requires_python": ">=3.10"}}, ("setup.py", ">=3.9.0", ">=3.10")),
        ({"needs": {"python": ">=3.8,<3.11"}}, ("setup.py", ">=3.9.0", ">=3.8,<3.11", "3.8")),
        (
            {
                "source": {
                    "configure_time": [{"url": "/ops", "pin_file": "third_party/xpu.txt", "commit": OTHER}]
                }
            },
            ("third_party/xpu.txt", PIN, OTHER, "/ops"),
        ),
        ({"triton": {"version": "3.3.0"}}, ("triton_version.txt", "3.2.0", "3.3.0")),
        ({"triton": {"commit": OTHER}}, ("ci_commit_pins/triton-xpu.txt", PIN, OTHER)),
        ({"source": {"skip_submodules": ["third_party/z"]}}, (".gitmodules", "third_party/z")),
        (
            {"source": {"skip_submodules": ["third_party/a/deps/d"]}},
            ("third_party/a/.gitmodules", "third_party/a/deps/d"),
        ),
    ],
)
def test_a_disagreement_names_the_file_and_both_values(
    tree: Path, changes: dict[str, Any], said: tuple[str, ...]
) -> None:
    (problem,) = found(tree, **changes).problems
    for part in said:
        assert part in problem


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"source": {"version": None}, "release": None}, "version.txt: it says 2.6.0a0"),
        ({"source": {"requires_python": None}}, "requires-python: setup.py says >=3.9.0"),
        ({"source": {"configure_time": []}}, "third_party/xpu.txt: the recipe has no configure_time entry"),
        ({"source": {"skip_submodules": ["third_party/b/x"]}}, "the tree has no third_party/b/.gitmodules"),
        ({"triton": {"version": None}}, "triton_version.txt: it says 3.2.0"),
        ({"triton": {"source": {"url": "/t"}}}, "triton-xpu.txt: it says"),
    ],
)
def test_what_the_recipe_does_not_say_is_not_checked(tree: Path, changes: dict[str, Any], said: str) -> None:
    report = found(tree, **changes)
    assert report.problems == []
    assert any(said in text for text in report.not_checked), report.not_checked


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("version.txt", "version.txt: the tree has none"),
        ("setup.py", "requires-python: neither"),
        (".ci/docker/ci_commit_pins/triton-xpu.txt", "triton-xpu.txt: the tree has none"),
        (".ci/docker/triton_version.txt", "triton_version.txt: the tree has none"),
        (".gitmodules", "the tree has no .gitmodules"),
    ],
)
def test_what_the_tree_does_not_say_is_not_checked(tree: Path, file: str, said: str) -> None:
    (tree / file).unlink()
    report = found(tree)
    assert report.problems == []
    assert any(said in text for text in report.not_checked), report.not_checked


def test_the_pin_of_an_open_commit_is_read(tree: Path) -> None:
    report = found(tree, source={"configure_time": [{"url": "/ops", "pin_file": "third_party/xpu.txt"}]})
    assert report.problems == []
    assert report.found["pins"] == [{"file": "third_party/xpu.txt", "url": "/ops", "commit": PIN}]


def test_a_tag_in_a_cmake_file(tree: Path) -> None:
    (tree / "Find.cmake").write_text("GIT_TAG v3.5.3\n")
    entry = {"url": "/dnn", "pin_file": "Find.cmake", "ref": "v3.5.3"}
    report = found(tree, source={"configure_time": [entry]})
    assert report.problems == []
    assert report.found["pins"] == [{"file": "Find.cmake", "url": "/dnn", "ref": "v3.5.3"}]
    for wrong in ("v3.5", "v3.5.30", "3.5.3", "v3.5.2"):
        (problem,) = found(tree, source={"configure_time": [{**entry, "ref": wrong}]}).problems
        assert "Find.cmake" in problem
        assert wrong in problem


def test_what_a_cmake_file_names_is_recorded_where_the_recipe_leaves_it_open(tree: Path) -> None:
    entry = {"url": "/dnn", "pin_file": "Find.cmake"}
    file = tree / "Find.cmake"
    file.write_text(f"ExternalProject_Add(x\n  GIT_REPOSITORY /dnn\n  GIT_TAG v3.7.1\n)\n# {OTHER}\n")
    report = found(tree, source={"configure_time": [entry]})
    assert report.problems == []
    assert report.found["pins"] == [{"file": "Find.cmake", "url": "/dnn", "ref": "v3.7.1"}]
    assert any("it says v3.7.1, the recipe leaves it open" in text for text in report.not_checked)
    assert found(tree, source={"configure_time": [{**entry, "commit": OTHER}]}).problems == []
    file.write_text("GIT_TAG v1\nGIT_TAG v2\n")
    report = found(tree, source={"configure_time": [entry]})
    assert "pins" not in report.found
    assert any("a commit of /dnn" in text for text in report.not_checked)


def test_the_version_of_triton_for_xpu_comes_first(tree: Path) -> None:
    (tree / ".ci/docker/triton_xpu_version.txt").write_text("3.7.0\n")
    assert found(tree, triton={"version": "3.7.0"}).problems == []
    (problem,) = found(tree).problems
    assert "triton_xpu_version.txt says 3.7.0" in problem


def test_a_release_candidate_of_the_tree_is_its_release(tree: Path) -> None:
    assert found(tree, source={"version": None}).problems == []
    (tree / "version.txt").write_text("2.6\n")
    assert found(tree, source={"version": None}).problems == []


def test_a_folder_without_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a source tree"):
        require_tree(expected(recipe(), "torch"), tmp_path)
    with pytest.raises(UsageError, match="no source tree of 'vision'"):
        expected(recipe(), "vision")


def test_a_wheel_from_a_folder_of_the_tree(tmp_path: Path) -> None:
    top = tmp_path / "triton"
    (top / "python").mkdir(parents=True)
    (top / "python/setup.py").write_text("setup(python_requires='>=3.12')")
    source = {"url": "/t", "requires_python": ">=3.9"}
    wanted = expected(recipe(triton={"build": {"source_dir": "python"}, "source": source}), "triton")
    require_tree(wanted, top)
    (problem,) = check_tree(wanted, top).problems
    assert "setup.py requires Python >=3.12, but components.triton.source.requires_python is >=3.9" in problem


def test_the_proof_of_a_checkout(tree: Path) -> None:
    proof = RecipeTreeProof(str(tree), expected(recipe(), "torch"))
    assert proof.check()["pins"] == [{"file": "third_party/xpu.txt", "url": "/ops", "commit": PIN}]
    wrong = RecipeTreeProof(str(tree), expected(recipe(source={"version": "2.9.0a0"}), "torch"))
    assert json.dumps(proof.key()) != json.dumps(wrong.key())
    assert "torch" in proof.describe()
    with pytest.raises(RecipeError) as caught:
        wrong.check()
    assert caught.value.exit_code == 20
    assert "version.txt says 2.6.0a0" in caught.value.why
    assert "2.9.0a0" in caught.value.why
    assert str(tree) in caught.value.commands[0]


RECIPE = f"""
schema: 1
name: "2.6"
title: a line
release: 2.6.0
needs: {{python: ">=3.9"}}
components:
  torch:
    kind: source
    dist: torch
    source:
      url: /x
      ref: v2.6.0
      version: 2.6.0a0
      configure_time: [{{url: /ops, pin_file: third_party/xpu.txt, commit: "{PIN}"}}]
    build:
      env: {{USE_XPU: "{{xpu}}", USE_CUDA: 0, USE_ROCM: 0, USE_DISTRIBUTED: 1, USE_MPI: 0, USE_KINETO: 1}}
"""


def test_on_the_command_line(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    xpubuild = Xpubuild(capsys, monkeypatch)
    path = tmp_path / "2.6.yaml"
    path.write_text(RECIPE)
    document = xpubuild.json("recipes", "check", str(path), "--tree", str(tree))
    check(document, "recipes-check")
    assert document["status"] == "ok"
    assert "torch: commit: the tree is not a git checkout" in document["recipes"][0]["not_checked"]
    shown = xpubuild.ok("recipes", "check", str(path), "--tree", f"torch={tree}").out
    assert "not checked: torch: commit" in shown
    (tree / "third_party/xpu.txt").write_text(OTHER)
    failed = xpubuild("recipes", "check", str(path), "--tree", str(tree), "--json")
    assert failed.status == 20
    (problem,) = failed.document()["recipes"][0]["problems"]
    assert all(part in problem for part in ("third_party/xpu.txt", PIN, OTHER, str(tree)))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tree", "/nowhere"), "belongs to one recipe"),
        (("quickstart", "2.8", "--tree", "/nowhere"), "belongs to one recipe"),
        (("2.8", "--tree", "/nowhere"), "is not a source tree"),
        (("2.8", "--tree", "ops=/nowhere"), "no source tree of 'ops'"),
        (("2.8", "--tree", "torch="), "has no folder"),
        (("2.8", "--tree", "/a", "--tree", "/b"), "two source trees"),
    ],
)
def test_a_wrong_use_of_tree(
    arguments: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = Xpubuild(capsys, monkeypatch)("recipes", "check", *arguments)
    assert result.status == 2
    assert said in result.err


def test_a_stated_pin_must_be_in_the_tree(tree: Path) -> None:
    (tree / "third_party/xpu.txt").write_text(" \n")
    (problem,) = found(tree).problems
    assert problem == f"third_party/xpu.txt: it is empty, but the recipe pins /ops to {PIN}"
    (tree / "third_party/xpu.txt").unlink()
    (problem,) = found(tree).problems
    assert problem == f"third_party/xpu.txt: the tree has no such file, but the recipe pins /ops to {PIN}"
    proof = RecipeTreeProof(str(tree), expected(recipe(), "torch"))
    with pytest.raises(RecipeError, match="does not match"):
        proof.check()
    # Where the recipe leaves the pin open there is nothing to disagree about.
    report = found(tree, source={"configure_time": [{"url": "/ops", "pin_file": "third_party/xpu.txt"}]})
    assert report.problems == []
    assert "third_party/xpu.txt: the tree has no such file" in report.not_checked


def test_a_tree_that_says_nothing_is_no_tree_that_agrees(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("")
    wanted = expected(recipe(source={"configure_time": []}), "torch")
    assert check_tree(wanted, tmp_path).problems == ["nothing in the tree could be compared with the recipe"]
    # A checkout that is proved to be of its commit may be silent about the rest.
    assert check_tree(wanted, tmp_path, head=False).problems == []
    (tmp_path / "version.txt").write_text("2.6.0a0\n")
    assert check_tree(wanted, tmp_path).problems == []

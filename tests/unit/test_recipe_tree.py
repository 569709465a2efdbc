"""A recipe against the tree it pins: every disagreement names the file and both values."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.cli import Xpubuild
from support.files import lay
from support.recipe_trees import FORWARDING, OTHER, PIN, found, recipe, write_tree

from xpubuild.errors import RecipeError, UsageError
from xpubuild.recipe.tree import RecipeTreeProof, check_tree, expected

PIN_FILE = {"url": "/ops", "pin_file": "third_party/xpu.txt"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "tree")


def test_a_recipe_that_agrees(tree: Path) -> None:
    report = found(tree)
    assert report.problems == []
    assert report.not_checked == ["commit: the tree has none"]
    assert report.found == {
        "version": "2.6.0a0",
        "pins": [{"file": "third_party/xpu.txt", "url": "/ops", "commit": PIN}],
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"source": {"version": "2.7.0a0"}}, ("version.txt", "2.6.0a0", "2.7.0a0")),
        ({"source": {"version": None}, "release": "2.6.1"}, ("version.txt", "2.6.0a0", "2.6.1")),
        (
            {"source": {"configure_time": [{**PIN_FILE, "commit": OTHER}]}},
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
        ({"source": {"configure_time": []}}, "third_party/xpu.txt: the recipe has no configure_time entry"),
        ({"source": {"configure_time": [PIN_FILE]}}, f"third_party/xpu.txt: it says {PIN}"),
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
    "file",
    ["version.txt", ".ci/docker/ci_commit_pins/triton-xpu.txt", ".ci/docker/triton_version.txt"],
)
def test_what_the_tree_does_not_say_is_not_checked(tree: Path, file: str) -> None:
    (tree / file).unlink()
    report = found(tree)
    assert report.problems == []
    assert any(f"{file}: the tree has none" in text for text in report.not_checked), report.not_checked


@pytest.fixture
def listing(tree: Path) -> Path:
    """A tree that says which variables it forwards, and files of CMake that read some."""
    files = {
        "cmake/EnvVarForwarding.cmake": FORWARDING,
        "CMakeLists.txt": "option(USE_XPU x ON) # USE_NINJA\nif($ENV{TH_BINARY_BUILD})\nset(OTHER 1)\n",
        "third_party/dnn/CMakeLists.txt": "if(USE_DNN_THREADS)\n",
    }
    return lay(tree, files)


@pytest.mark.parametrize(
    "name",
    ["BLAS", "CUDNN_LIB_DIR", "CUDAHOSTCXX", "USE_XPU", "TH_BINARY_BUILD", "USE_DNN_THREADS",
     "CMAKE_BUILD_TYPE", "MAX_JOBS", "DEBUG", "TORCH_NATIVE_AOT",
     "PYTORCH_BUILD_VERSION", "USE_ONEMKL_XPU", "XPU_DEVICE_DEBUG",
     "SKBUILD_EDITABLE_REBUILD", "CCACHE_MAXSIZE", "NINJA_STATUS"],
)  # fmt: skip
def test_a_variable_that_the_tree_reads(listing: Path, name: str) -> None:
    assert found(listing, env={name: "1"}).problems == []


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("USE_NINJA", ""),
        ("OTHER", ""),
        ("USE_XPUS", "USE_XPU"),
        ("CUDNN_LIB_DIRS", "CUDNN_LIB_DIR"),
        ("CMAKE", ""),
    ],
)
def test_a_variable_that_nobody_reads_is_a_problem(listing: Path, name: str, near: str) -> None:
    (problem,) = found(listing, env={name: "1"}).problems
    assert problem.startswith(f"the build sets {name}, which cmake/EnvVarForwarding.cmake does not forward")
    assert problem.endswith(f"; {near} is one" if near else "reads") or not near
    with pytest.raises(RecipeError, match="does not match the source tree"):
        RecipeTreeProof(str(listing), expected(recipe(env={name: "1"}), "torch")).check()
    (listing / "cmake/EnvVarForwarding.cmake").unlink()
    assert found(listing, env={name: "1"}).problems == [], "up to 2.12 nobody knows"


def test_where_the_tree_says_that_it_reads_a_variable_the_table_of_switches_is_wrong(
    listing: Path, tmp_path: Path, xpubuild: Xpubuild
) -> None:
    text = "extends: '2.14'\nenv: {USE_ONEMKL: 1, IGNORED_BY_ALL: 1}\n"
    (tmp_path / "mine.yaml").write_text(f"schema: 1\nname: mine\ntitle: t\n{text}")
    argv = ("recipes", "check", str(tmp_path / "mine.yaml"))
    assert "USE_ONEMKL is set" in str(xpubuild(*argv, "--json").document()["recipes"][0]["problems"])
    with (listing / "CMakeLists.txt").open("a") as stream:
        stream.write("if(USE_ONEMKL)\n")
    result = xpubuild(*argv, "--tree", f"torch={listing}", "--json")
    assert result.status == 20
    problems = str(result.document()["recipes"][0]["problems"])
    assert "USE_ONEMKL is set" not in problems
    assert "the build sets IGNORED_BY_ALL" in problems


def test_a_tag_in_a_cmake_file(tree: Path) -> None:
    file = tree / "Find.cmake"
    file.write_text(f"ExternalProject_Add(x\n  GIT_REPOSITORY /dnn\n  GIT_TAG v3.5.3\n)\n# {OTHER}\n")
    entry = {"url": "/dnn", "pin_file": "Find.cmake", "ref": "v3.5.3"}
    for pin in (entry, {**entry, "ref": None}):
        report = found(tree, source={"configure_time": [pin]})
        assert report.problems == []
        assert report.found["pins"] == [{"file": "Find.cmake", "url": "/dnn", "ref": "v3.5.3"}]
    for wrong in ("v3.5", "v3.5.30", "3.5.3", "v3.5.2"):
        (problem,) = found(tree, source={"configure_time": [{**entry, "ref": wrong}]}).problems
        assert "Find.cmake" in problem
        assert wrong in problem
    file.write_text("GIT_TAG v1\nGIT_TAG v2\n")
    report = found(tree, source={"configure_time": [{**entry, "ref": None}]})
    assert "pins" not in report.found
    assert "Find.cmake: it says nothing, the recipe leaves it open" in report.not_checked


def test_the_version_of_triton_for_xpu_comes_first(tree: Path) -> None:
    (tree / ".ci/docker/triton_xpu_version.txt").write_text("3.7.0\n")
    assert found(tree, triton={"version": "3.7.0"}).problems == []
    (problem,) = found(tree).problems
    assert "triton_xpu_version.txt says 3.7.0" in problem


@pytest.mark.parametrize("how", ["pipe", "folder", "/dev/zero", "../../../../../../etc/hostname", "nothing"])
@pytest.mark.timeout(20)
def test_what_is_no_file_of_the_tree_is_not_read(tree: Path, how: str) -> None:
    file = tree / "third_party/xpu.txt"
    file.unlink()
    if how == "pipe":
        os.mkfifo(file)
    elif how == "folder":
        file.mkdir()
    else:
        file.symlink_to(how)
    (problem,) = found(tree).problems
    assert problem == (
        f"third_party/xpu.txt says nothing, the recipe's commit of /ops is {PIN}"
        " (components.torch.source.configure_time)"
    )


def test_the_commit_that_is_checked_out(tree: Path) -> None:
    def git(*words: str) -> str:
        argv = ("git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", *words)
        return subprocess.run(argv, cwd=tree, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet")
    assert found(tree, source={"commit": OTHER}).not_checked == ["commit: the tree has none"]
    git("add", "--all")
    git("commit", "--quiet", "--message", "x")
    head = git("rev-parse", "HEAD")
    assert found(tree, source={"commit": head}).compared[-1] == "commit"
    assert found(tree, source={"commit": OTHER}).problems == [
        f"commit says {head}, but components.torch.source.commit is {OTHER}"
    ]


def test_a_folder_without_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a source tree"):
        check_tree(expected(recipe(), "torch"), tmp_path)
    with pytest.raises(UsageError, match="no source tree of 'vision'"):
        expected(recipe(), "vision")


def test_a_tree_that_says_nothing_is_no_tree_that_agrees(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("")
    wanted = expected(recipe(source={"configure_time": []}), "torch")
    assert check_tree(wanted, tmp_path).problems == ["nothing in the tree could be compared with the recipe"]
    # A checkout that is proved to be of its commit may be silent about the rest.
    assert RecipeTreeProof(str(tmp_path), wanted).check()["not_checked"]


def test_the_proof_of_a_checkout(tree: Path) -> None:
    proof = RecipeTreeProof(str(tree), expected(recipe(), "torch"))
    assert proof.check()["pins"] == [{"file": "third_party/xpu.txt", "url": "/ops", "commit": PIN}]
    wrong = RecipeTreeProof(str(tree), expected(recipe(source={"version": "2.9.0a0"}), "torch"))
    assert proof.key() != wrong.key()
    with pytest.raises(RecipeError) as caught:
        wrong.check()
    assert "version.txt says 2.6.0a0" in caught.value.why
    assert "2.9.0a0" in caught.value.why
    assert str(tree) in caught.value.commands[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tree", "/nowhere"), "belongs to one recipe"),
        (("2.8", "--tree", "/nowhere"), "is not a source tree"),
        (("2.8", "--tree", "ops=/nowhere"), "no source tree of 'ops'"),
        (("2.8", "--tree", "torch="), "has no folder"),
        (("2.8", "--tree", "/a", "--tree", "/b"), "two source trees"),
    ],
)
def test_a_wrong_use_of_tree(xpubuild: Xpubuild, arguments: tuple[str, ...], said: str) -> None:
    result = xpubuild("recipes", "check", *arguments)
    assert (result.status, said in result.err) == (2, True)

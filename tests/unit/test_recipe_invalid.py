"""Recipes that cannot be read: each says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.errors import RecipeError
from xpubuild.recipe.load import find, is_abstract, load, requirement_file

HEAD = "schema: 1\nname: mine\ntitle: t\n"
ONE = HEAD + "components: {a: {kind: source, dist: x, source: {url: /x, commit: %s}}}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XPUBUILD_RECIPES", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"), ("- a\n", "its top level has no keys"), ("a: 1\na: 2\n", "duplicate or"),
        ("name: mine\n", "schema: missing"), (HEAD + "nmae: x\nneeds: {}\n", "nmae: unknown key"),
        (HEAD + "needs: {gcc: [1]}\n", "needs.gcc: must be text"),
        (HEAD + "needs: {gcc: newest}\n", "'newest' is not a version specifier"),
        (HEAD + "release: newest\n", "'newest' is not a version"),
        (HEAD + "needs: {disk_gib: .inf}\n", "disk_gib"), (HEAD + "abi: {default: 2}\n", "abi.default"),
        (HEAD + "targets: [cpu]\n", "target 'xpu' is not"), (HEAD + "extends: true\n", "name of one"),
        (HEAD + "costs: {x: {minutes: -1}}\n", "costs.x.minutes"),
        (HEAD + "components: {To: {kind: wheel, dist: x, version: '1', requirements: a}}\n", "'To' is not"),
        (HEAD + "components: {a: {kind: source, dist: x}}\n", "needs 'source'"),
        (HEAD + "components: {a: {kind: wheel, dist: x, version: '1'}}\n", "'version' and 'requirements'"),
        (HEAD + "components: {a: {kind: source, dist: x, source: {}}}\n", "exactly one of"),
        (ONE % "main", "is not a full commit id"),
        (HEAD + "components: {a: {kind: source, dist: x, needs: [b], source: {url: /x}}}\n", "not a com"),
        (HEAD + "components: {a: {kind: source, dist: x, needs: [b], source: {url: /x}},"
         " b: {kind: source, dist: y, needs: [a], source: {url: /x}}}\n", "in a circle"),
        (HEAD + "verify: {require: [torch]}\n", "verify.require"),
        (HEAD + "variants: {small: {env: {torch: {A: 1}}}}\n", "variants.small.env"),
        (HEAD + "toolkits: [{oneapi: '>=1', standing: patched, source: x}]\n", "'patches' belong"),
        (HEAD + "loses: [{feature: x, when: {glibc: '>=2'}}]\n", "loses.0.when"),
        (HEAD + "extends: nothing\n", "known recipes"),
        (HEAD + "".join(f"{key}: 1\n" for key in "abcdefg"), " (and 2 more)"),
    ],
)  # fmt: skip
def test_a_recipe_that_is_refused(folder: Path, text: str, said: str) -> None:
    (folder / "mine.yaml").write_text(text)
    with pytest.raises(RecipeError) as caught:
        load("mine")
    assert said in caught.value.why


@pytest.mark.parametrize("text", [HEAD, ONE % ("a" * 64), HEAD + "costs: {x: {disk_mb: 10000000}}\n"])
def test_one_that_is_read(folder: Path, text: str) -> None:
    (folder / "mine.yaml").write_text(text)
    assert load("mine").recipe.name == "mine"


@pytest.mark.parametrize("name", ["none.yaml", "none.yml", "./none", "folder.yaml", "there.txt", "quikstart"])
def test_a_recipe_that_is_not_found(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "folder.yaml").mkdir()
    (folder / "there.txt").write_text(HEAD)
    with pytest.raises(RecipeError):
        find(name)


def test_one_that_is_no_text_or_nested_too_deeply(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xpubuild.recipe.load.MOST_RECIPE_BYTES", 4096)
    for data in (b"\xff\xfe", b"#" * 4097, b"[" * 300):
        (folder / "mine.yaml").write_bytes(data)
        with pytest.raises(RecipeError):
            load("mine")
        assert not is_abstract(folder / "mine.yaml")


def test_a_requirement_file_is_looked_for_beside_the_recipe_and_those_that_it_extends(folder: Path) -> None:
    (folder / "mine.yaml").write_text(HEAD + "extends: quickstart\n")
    (folder / "own.txt").write_text("")
    loaded = load("mine")
    assert requirement_file(loaded, "own.txt") == folder / "own.txt"
    assert requirement_file(loaded, "requirements/quickstart-toolchain.txt").is_file()
    with pytest.raises(RecipeError):
        requirement_file(loaded, "gone.txt")


def test_recipes_extend_each_other_through_eight_files_and_no_more(folder: Path) -> None:
    for number in range(10):
        parent = f"extends: r{number + 1}\n" if number < 9 else ""
        (folder / f"r{number}.yaml").write_text(HEAD.replace("mine", f"r{number}") + parent)
    assert load("r1").recipe.name == "r1"
    with pytest.raises(RecipeError):
        load("r0")

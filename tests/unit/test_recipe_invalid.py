"""Recipes that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.errors import RecipeError
from xpubuild.recipe.load import find, is_abstract, load, requirement_file

HEAD = "schema: 1\nname: mine\ntitle: t\n"
TORCH = "components: {torch: {kind: source, dist: torch, source: {url: /x, commit: %s}}}\n" % ("a" * 40)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XPUBUILD_RECIPES", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        "", "- a\n", "a: 1\na: 2\n", "name: mine\n", HEAD + "nmae: x\nneds: {}\n",
        HEAD + "needs: {gcc: [1]}\n", HEAD + "needs: {gcc: newest}\n", HEAD + "release: newest\n",
        HEAD + "needs: {disk_gib: 0}\n", HEAD + "needs: {disk_gib: .inf}\n",
        HEAD + "needs: {cxx_standard: 100}\n",
        HEAD + "title: 3\n", HEAD + "abi: {default: 2}\n", HEAD + "targets: [cpu]\n",
        HEAD + "target: gpu\n", HEAD + "arch_fixed: [{}]\n", HEAD + "extends: [a, b]\n",
        HEAD + "extends: true\n",
        HEAD + "costs: {x: {minutes: -1}}\n", HEAD + "costs: {x: {disk_mb: 10000001}}\n",
        HEAD + "components: {To: {kind: wheel, dist: x, version: '1', indexes: [a]}}\n",
        HEAD + "components: {a: {kind: source, dist: x}}\n",
        HEAD + "components: {a: {kind: wheel, dist: x}}\n",
        HEAD + "components: {a: {kind: wheel, dist: x, version: '1'}}\n",
        HEAD + "components: {a: {kind: wheel, dist: x, indexes: [i]}}\n",
        HEAD + "components: {a: {kind: source, dist: x, source: {}}}\n",
        HEAD + "components: {a: {kind: source, dist: x, source: {url: /x, embedded: ops}}}\n",
        HEAD + "components: {a: {kind: source, dist: x, source: {url: /x, commit: main}}}\n",
        HEAD + "components: {a: {kind: source, dist: x, source: {url: /x, commit: 12345}}}\n",
        HEAD + "components: {a: {kind: source, dist: x, source: {url: 'https://h/a?b=c'}}}\n",
        HEAD + "components: {a: {kind: source, dist: x, needs: [b], source: {url: /x}}}\n",
        HEAD + "components: {a: {kind: source, dist: x, needs: [b], source: {url: /x}},"
        " b: {kind: source, dist: y, needs: [a], source: {url: /x}}}\n",
        HEAD + "verify: {require: [torch]}\n", HEAD + "variants: {small: {env: {torch: {A: 1}}}}\n",
        HEAD + TORCH + "variants: {Small: {}}\nverify: {suite: huge}\n",
        HEAD + TORCH + "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\nf: 1\ng: 1\n",
        HEAD + "toolkits: [{oneapi: '>=1', standing: patched, source: x}]\n",
        HEAD + "loses: [{feature: x, when: {glibc: '>=2'}}]\n", HEAD + "extends: nothing\n",
    ],
    ids=range(39),
)  # fmt: skip
def test_a_recipe_that_is_refused(folder: Path, text: str) -> None:
    (folder / "mine.yaml").write_text(text)
    with pytest.raises(RecipeError):
        load("mine")


@pytest.mark.parametrize(("keys", "told"), [("abcde", "e: unknown key"), ("abcdefg", " (and 2 more)")])
def test_the_first_five_problems_are_named(folder: Path, keys: str, told: str) -> None:
    (folder / "mine.yaml").write_text(HEAD + "".join(f"{key}x: 1\n" for key in keys))
    with pytest.raises(RecipeError) as caught:
        load("mine")
    assert caught.value.why.count("; ") == 4
    assert caught.value.why.endswith(told.replace("e:", "ex:"))


@pytest.mark.parametrize(
    "text",
    [
        HEAD, HEAD + "needs: {disk_gib: 0.1, cxx_standard: 99}\n", HEAD + "costs: {x: {minutes: 0}}\n",
        HEAD + TORCH.replace("a" * 40, "a" * 64), HEAD + "costs: {x: {disk_mb: 10000000}}\n",
        HEAD + "components: {a_1.x-: {kind: wheel, dist: x, version: '1', requirements: r.txt}}\n",
        HEAD + TORCH + "variants: {small: {env: {torch: {A: 1}}}}\nverify: {require: [torch]}\n",
    ],
    ids=range(7),
)  # fmt: skip
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


def test_one_that_is_no_text_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xpubuild.recipe.load.MOST_RECIPE_BYTES", 4096)
    for data in (b"\xff\xfe", b"#" * 4097):
        (folder / "mine.yaml").write_bytes(data)
        with pytest.raises(RecipeError):
            load("mine")
        assert not is_abstract(folder / "mine.yaml")


def test_one_that_is_nested_too_deeply_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deep(_: str) -> None:
        raise RecursionError

    (folder / "mine.yaml").write_text(HEAD)
    monkeypatch.setattr("xpubuild.recipe.load.read_yaml_strict", deep)
    with pytest.raises(RecipeError):
        load("mine")


def test_a_requirement_file_is_looked_for_beside_the_recipe_and_those_that_it_extends(folder: Path) -> None:
    (folder / "mine.yaml").write_text(HEAD + "extends: quickstart\n")
    loaded = load("mine")
    (folder / "own.txt").write_text("")
    assert requirement_file(loaded, "own.txt") == folder / "own.txt"
    shipped = requirement_file(loaded, "requirements/quickstart-toolchain.txt")
    assert shipped.is_file()
    with pytest.raises(RecipeError):
        requirement_file(loaded, "gone.txt")


def test_recipes_extend_each_other_through_eight_files_and_no_more(folder: Path) -> None:
    for number in range(10):
        parent = f"extends: r{number + 1}\n" if number < 9 else ""
        text = HEAD.replace("mine", f"r{number}") + parent
        (folder / f"r{number}.yaml").write_text(text)
    assert load("r1").recipe.name == "r1"
    with pytest.raises(RecipeError):
        load("r0")

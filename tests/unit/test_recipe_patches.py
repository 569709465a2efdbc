"""Patch releases of a line: found by name, merged over the line, listed and checked with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cli import Xpubuild

from xpubuild.errors import RecipeError
from xpubuild.recipe.checked import check_recipes
from xpubuild.recipe.load import load

OLD, NEW = "a" * 40, "b" * 40
LINE: dict[str, Any] = {
    "schema": 1,
    "name": "1.7",
    "title": "a line",
    "release": "1.7.1",
    "patches": {
        "1.7.0": {
            "components": {"torch": {"source": {"commit": OLD, "ref": "v1.7.0"}}},
            "facts": {"components.torch.source.commit": {"source": "the tag v1.7.0"}},
        },
        "1.7.0.post1": {"title": "another"},
    },
    "needs": {"python": ">=3.10"},
    "components": {
        "torch": {"kind": "source", "dist": "torch", "source": {"url": "/x", "commit": NEW, "ref": "v1.7.1"}}
    },
    "facts": {
        "needs.python": {"source": "its setup.py"},
        "components.torch.source.commit": {"source": "the tag v1.7.1", "confidence": "inferred"},
    },
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XPUBUILD_RECIPES", str(tmp_path))
    write(tmp_path, "1.7", LINE)
    return tmp_path


def write(folder: Path, name: str, document: dict[str, Any]) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_patch_release_is_laid_over_its_line(folder: Path) -> None:
    loaded = load("1.7.0")
    assert (loaded.recipe.name, loaded.recipe.release) == ("1.7.0", "1.7.0")
    source = loaded.recipe.components["torch"].source
    assert (source.commit, source.ref, source.url) == (OLD, "v1.7.0", "/x")
    assert loaded.recipe.needs.python == ">=3.10"
    assert loaded.recipe.patches == {}
    assert loaded.path == folder / "1.7.yaml"
    commit = loaded.recipe.facts["components.torch.source.commit"]
    assert (commit.source, commit.confidence) == ("the tag v1.7.0", "verified")
    assert loaded.recipe.facts["needs.python"].source == "its setup.py"


def test_the_newest_release_is_the_line_under_its_own_name(folder: Path) -> None:
    line, newest = load("1.7").recipe, load("1.7.1").recipe
    assert newest.name == "1.7.1"
    assert newest == line.model_copy(update={"name": "1.7.1"})


def test_a_release_that_is_not_there_names_those_that_are(folder: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load("1.7.9")
    assert caught.value.exit_code == 20
    assert "1.7.9" in caught.value.what
    assert "1.7.1, 1.7.0.post1, 1.7.0" in caught.value.why
    with pytest.raises(RecipeError, match=r"no recipe named '1\.6\.0'"):
        load("1.6.0")


def test_a_file_of_its_own_comes_before_the_line(folder: Path) -> None:
    write(folder, "1.7.0", {**LINE, "name": "1.7.0", "title": "own", "patches": {}})
    assert load("1.7.0").recipe.title == "own"


def test_a_sites_recipe_keeps_the_patches_of_what_it_extends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, shipped = tmp_path / "site", tmp_path / "shipped"
    for place in (site, shipped):
        place.mkdir()
    monkeypatch.setenv("XPUBUILD_RECIPES", f"{site}:{shipped}")
    write(shipped, "1.7", LINE)
    write(site, "1.7", {"schema": 1, "name": "1.7", "title": "ours", "extends": "1.7", "env": {"A": "b"}})
    write(site, "mine", {"schema": 1, "name": "mine", "title": "mine", "extends": "1.7.0"})
    loaded = load("1.7.0").recipe
    assert (loaded.name, loaded.env, loaded.title) == ("1.7.0", {"A": "b"}, "ours")
    assert loaded.components["torch"].source.commit == OLD  # type: ignore[union-attr]
    mine = load("mine").recipe
    assert (mine.name, mine.release) == ("mine", "1.7.0")
    assert mine.components["torch"].source.commit == OLD  # type: ignore[union-attr]


@pytest.mark.parametrize("release", ["1.7.1", "1.8.0"])
def test_the_sources_of_one_release_are_not_built_as_another(folder: Path, release: str) -> None:
    mine = {"schema": 1, "name": "mine", "title": "mine", "extends": "1.7.0", "release": release}
    write(folder, "mine", mine)
    with pytest.raises(RecipeError) as caught:
        load("mine")
    assert caught.value.exit_code == 20
    assert f"extends '1.7.0', which is release 1.7.0, but sets release {release}" in caught.value.why
    write(folder, "mine", {**mine, "release": "1.7.0"})
    assert load("mine").recipe.release == "1.7.0"
    # A newer patch release than those of the line, with sources of its own, is in order.
    write(folder, "mine", {**mine, "extends": "1.7", "release": "1.7.2"})
    assert load("mine").recipe.release == "1.7.2"


@pytest.mark.parametrize("name", ["2.7", "2", "2.10"])
def test_a_number_that_is_extended_has_to_be_in_quotes(folder: Path, name: str) -> None:
    path = folder / "mine.yaml"
    path.write_text(f"schema: 1\nname: mine\ntitle: mine\nextends: {name}\n")
    with pytest.raises(RecipeError, match="extends something it cannot") as caught:
        load("mine")
    assert "YAML reads as a number" in caught.value.why
    assert "in quotes" in caught.value.fix


@pytest.mark.parametrize(("name", "parent"), [("mine", "mine"), ("1.9", "1.9"), ("1.9", "1.9.0")])
def test_a_recipe_that_extends_itself_says_so(folder: Path, name: str, parent: str) -> None:
    path = write(folder, name, {"schema": 1, "name": name, "title": "t", "extends": parent})
    for asked in (name, str(path)):
        with pytest.raises(RecipeError, match="extends something it cannot") as caught:
            load(asked)
        assert "it extends itself" in caught.value.why


@pytest.mark.parametrize("key", ["name", "release", "schema", "patches", "extends", "abstract"])
def test_a_patch_cannot_become_another_recipe(folder: Path, key: str) -> None:
    write(folder, "1.7", {**LINE, "patches": {"1.7.0": {key: "1.8"}}})
    with pytest.raises(RecipeError, match=key):
        load("1.7.0")


def test_the_check_of_a_line_looks_at_its_patches(folder: Path) -> None:
    problems = check_recipes(["1.7"])["recipes"][0]["problems"]
    assert not [text for text in problems if text.startswith("1.7.0")], problems
    wrong = {
        "1.7.0": {"needs": {"pyhton": ">=3.9"}},
        "1.6.3": {},
        "1.7.2": {"facts": {"needs.nothing": {"source": "x"}}},
    }
    write(folder, "1.7", {**LINE, "patches": wrong})
    found = "\n".join(check_recipes(["1.7"])["recipes"][0]["problems"])
    assert "needs.pyhton: unknown key" in found
    assert "1.6.3: it is not a patch release of 1.7" in found
    assert "1.7.2: facts lists 'needs.nothing', which the recipe does not have" in found


def test_on_the_command_line(folder: Path, xpubuild: Xpubuild) -> None:
    document = xpubuild.json("recipes", "show", "1.7.0")
    assert document["recipe"]["name"] == "1.7.0"
    listed = {entry["name"]: entry for entry in xpubuild.json("recipes", "list")["recipes"]}
    assert listed["1.7"]["release"] == "1.7.1"
    assert listed["1.7"]["patches"] == ["1.7.0.post1", "1.7.0"]
    row = next(line for line in xpubuild.ok("recipes", "list").out.splitlines() if line.startswith("1.7 "))
    assert "1.7.1" in row
    assert "1.7.0.post1, 1.7.0" in row
    refused = xpubuild("recipes", "show", "1.7.5")
    assert refused.status == 20
    assert "1.7.1, 1.7.0.post1, 1.7.0" in refused.err

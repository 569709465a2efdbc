"""YAML is read quickly, and as strictly as PyYAML's own code reads it."""

from __future__ import annotations

import copy
import time
from pathlib import Path

import pytest
import yaml
from support.imports import PACKAGE, ROOT

from xpubuild import safe_yaml
from xpubuild.errors import RecipeError
from xpubuild.recipe.load import read_document
from xpubuild.safe_yaml import read_yaml, read_yaml_strict

SHIPPED = [*(ROOT / "recipes").glob("*.yaml"), *PACKAGE.rglob("*.yaml")]


@pytest.fixture(params=["libyaml", "without libyaml"], autouse=True)
def build_of_pyyaml(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    safe_yaml._parsed.cache_clear()
    if request.param == "without libyaml":
        monkeypatch.setattr(safe_yaml, "LOADER", yaml.SafeLoader)
        monkeypatch.setattr(safe_yaml, "_STRICT", safe_yaml._STRICT_PYTHON)
    else:
        assert issubclass(safe_yaml._STRICT, yaml.CSafeLoader)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_what_ships_has_the_same_values_whoever_reads_it(path: Path) -> None:
    text = path.read_text("utf-8")
    assert read_yaml(text) == yaml.safe_load(text)
    if path.parent == ROOT / "recipes":
        assert read_yaml_strict(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "why", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", "duplicate or unusable key 'a'", 3),
        ("a: {b: {c: 1, c: 2}}\n", "duplicate or unusable key 'c'", 1),
        ("a: 1\n? [b]\n: 2\n", "duplicate or unusable key", 2),
        ("a: 1\nb: [\nc: 2\n", "expected ',' or ']'", 2),
        ("a: 1\nb\t: 2\n", "found character '\\t'", 2),
        ("a: !!python/object:os.system x\n", "could not determine a constructor", 1),
    ],
)
def test_an_error_names_the_line_and_shows_it(tmp_path: Path, text: str, why: str, line: int) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(text)
    with pytest.raises(RecipeError) as caught:
        read_document(recipe)
    assert why in caught.value.why
    assert f"line {line}, " in caught.value.why
    assert text.splitlines()[line - 1].strip().replace("\t", "") in caught.value.why.replace("\t", "")


@pytest.mark.parametrize(
    "text",
    ["- " * 200_000, "a: " + "[" * 200_000, "a: " + "- " * 3000],
    ids=["blocks", "brackets", "shallower"],
)
def test_what_is_nested_too_deeply_is_refused_and_crashes_nothing(tmp_path: Path, text: str) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(text)
    with pytest.raises(RecipeError, match=r"nested too deeply|not valid YAML"):
        read_document(recipe)


def test_a_text_is_parsed_once_and_each_caller_may_change_what_it_got() -> None:
    text = "a: {b: [1, 2]}\n"
    first = read_yaml_strict(text)
    untouched = copy.deepcopy(first)
    first["a"]["b"].append(3)
    assert read_yaml_strict(text) == untouched
    assert safe_yaml._parsed.cache_info().misses == 1


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    for value in (1, 2):
        recipe.write_text(f"a: {value}\n")
        assert read_document(recipe) == {"a": value}


@pytest.mark.parametrize("text", ["name: [x\n", "a:\n\tb: 1\n"])
def test_a_message_is_about_the_file(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match='in "the file", line') as caught:
        read_yaml_strict(text)
    assert "unicode string" not in str(caught.value)


def doubled(levels: int, item: str) -> str:
    """Return a text in which each of some levels has the one before eight times."""
    first = f"- &a0 {item.format('x', 'x')}"
    rest = (f"- &a{i} {item.format(f'*a{i - 1}', f'*a{i - 1}')}" for i in range(1, levels))
    return "\n".join([first, *rest]) + "\n"


@pytest.mark.parametrize("item", ["[{}, {}]", "{{y: {}, z: {}}}"])
def test_aliases_that_stand_for_more_than_memory_has_are_refused_at_once(tmp_path: Path, item: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(f"arch:\n{doubled(60, item)}")
    before = time.monotonic()
    with pytest.raises(RecipeError) as caught:
        read_document(path)
    assert "its aliases stand for more than 1000000 values" in caught.value.why
    assert time.monotonic() - before < 1
    for text in ("&a [*a]", "a: &a {b: *a}", "a: &a {x: 1}\nb: &b {<<: [*a, *a]}\nc: &c [*c]"):
        with pytest.raises(yaml.YAMLError, match="or for themselves"):
            read_yaml(text)
    assert read_yaml_strict(doubled(10, item))[2] == read_yaml(doubled(3, item))[2]
    assert read_yaml("a: &a {x: 1}\nb: {<<: *a, y: 2}") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}

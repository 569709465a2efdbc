"""The recipes of the release lines: complete, each value with its source, nothing said twice."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import pytest
from packaging.version import Version
from support.releases import EVERY, IN_TABLES, LINES, RELEASES, recipe_of, source

from xpubuild.recipe.facts import fact_of, leaves, look_up, without_source
from xpubuild.recipe.lint import lint
from xpubuild.recipe.load import read_document
from xpubuild.resources import recipes_dir

#: What the official wheels say they were built from, where that is not what the tag says.
WHEEL_COMMITS = {
    "2.4.0": "e4ee3be4063b7c430974252fdf7db42273388d86", "2.4.1": "38b96d3399a695e704ed39b60dac733c3fbf20e2",
    "2.6.0": "2236df1770800ffea5697b11b0bb0d910b2e59e1", "2.8.0": "a1cb3cc05d46d198467bebbb6e8fba50a325d4e7",
    "2.9.1": "5811a8d7da873dd699ff6687092c225caffcf1bb", "2.12.0": "7661cd9c6b841b62b7f411aa52ec51f05457263b",
}  # fmt: skip
#: What the author of a recipe chooses; everything else is a claim and needs a source.
CHOSEN = re.compile(
    r"(schema|name|title|extends|abstract|release|targets?|verify)(\.|$)|.*\.note$"
    r"|components\.[^.]+\.(kind|dist|needs|optional|targets|source\.(url|embedded|ref))$"
    r"|components\.[^.]+\.build\.(memory_gib_per_job|env\.(PYTORCH_BUILD_VERSION|BUILD_VERSION|PYTORCH_VERSION))$"
)


@functools.cache
def written(line: str) -> dict[str, Any]:
    return read_document(recipes_dir() / f"{line}.yaml")


def test_every_line_has_a_recipe_and_no_file_is_forgotten() -> None:
    files = {path.stem for path in recipes_dir().glob("*.yaml")}
    assert files == {*RELEASES, "main", "base", "quickstart"}
    assert set(RELEASES) >= {f"2.{minor}" for minor in range(4, 16)}
    for line, releases in RELEASES.items():
        assert recipe_of(line).recipe.name == line
        assert [release for release in releases if not release.startswith(f"{line}.")] == []
        assert sorted(releases, key=Version, reverse=True) == list(releases)
    assert recipe_of("main").recipe.release is None
    assert recipe_of("base").recipe.abstract


@pytest.mark.parametrize("name", EVERY)
def test_every_release_loads_and_is_sound(name: str) -> None:
    loaded = recipe_of(name)
    assert loaded.recipe.name == name
    assert lint(loaded.recipe).problems == ()
    assert not loaded.recipe.abstract
    assert name == "main" or name in loaded.recipe.title


@pytest.mark.parametrize("name", EVERY)
def test_every_value_has_a_source(name: str) -> None:
    loaded = recipe_of(name)
    assert without_source(loaded) == []
    facts = loaded.document["facts"]
    assert isinstance(facts, Mapping)
    # Toolkits have a source of their own.
    others = ("facts", "patches", "toolkits")
    body = {key: value for key, value in loaded.document.items() if key not in others}
    assert [path for path, _ in leaves(body) if not CHOSEN.match(path) and not fact_of(path, facts)] == []
    for path, fact in loaded.recipe.facts.items():
        assert fact.source.strip(), path
        assert fact.confidence != "unknown" or look_up(loaded.document, path) is not None, path


@pytest.mark.parametrize("name", EVERY)
def test_a_commit_is_known_or_said_to_be_unknown(name: str) -> None:
    recipe = recipe_of(name).recipe
    for key, component in recipe.components.items():
        if source(recipe, key).commit is None:
            assert recipe.facts[f"components.{key}.source.commit"].confidence == "unknown"
            assert component.source is not None
            # Without a commit it is looked up by its ref, which may be unknown only where it can be left out.
            assert component.source.ref or component.optional
    for index, item in enumerate(source(recipe, "torch").configure_time):
        known = [item.commit is not None, item.ref is not None]
        unknown = [
            f"components.torch.source.configure_time.{index}.{what}" in recipe.facts
            and recipe.facts[f"components.torch.source.configure_time.{index}.{what}"].confidence == "unknown"
            for what in ("commit", "ref")
        ]
        assert any(known) != any(unknown), item.url


def test_open_commits_are_those_that_no_source_names() -> None:
    open_ = {name for name in IN_TABLES if source(recipe_of(name).recipe, "torch").commit is None}
    assert open_ == {"2.14.0", "2.15.0", "main"}
    triton = {name for name in IN_TABLES if source(recipe_of(name).recipe, "triton").commit is None}
    assert triton == {"2.15.0", "main"}


@pytest.mark.parametrize("name", WHEEL_COMMITS)
def test_the_commit_is_that_of_the_tag_and_not_of_the_wheel(name: str) -> None:
    assert source(recipe_of(name).recipe, "torch").commit != WHEEL_COMMITS[name]


def test_no_two_releases_have_the_same_pins() -> None:
    for key in ("torch", "vision"):
        commits = [source(recipe_of(name).recipe, key).commit for name in EVERY]
        known = [commit for commit in commits if commit is not None]
        assert len(set(known)) == len(known)


@pytest.mark.parametrize("line", [*LINES, *(patch for _, *older in RELEASES.values() for patch in older)])
def test_nothing_is_said_twice(line: str) -> None:
    """What a recipe says as base says it, or a patch release as its line, would go stale there first."""
    if line in LINES:
        above, own = written("base"), written(line)
    else:
        above, own = dict(recipe_of(of := line.rpartition(".")[0]).document), written(of)["patches"][line]
    own = {key: value for key, value in own.items() if key not in ("schema", "facts")}
    assert _repeated(own, above, "") == []


def _repeated(own: Any, above: Any, path: str) -> list[str]:
    if isinstance(own, Mapping) and isinstance(above, Mapping):
        return [
            found
            for key in own.keys() & above.keys()
            for found in _repeated(own[key], above[key], f"{path}.{key}".lstrip("."))
        ]
    return [path] if own == above else []

"""The recipes of the release lines: sound, each value with its source, paired as upstream pairs it."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from support.releases import BRANCH, EVERY, LINES, RELEASES, recipe_of, source

from xpubuild.recipe.checked import check_recipes
from xpubuild.recipe.facts import without_source
from xpubuild.recipe.load import read_document, requirement_file
from xpubuild.recipe.model import Recipe
from xpubuild.resources import recipes_dir


@functools.cache
def written(line: str) -> dict[str, Any]:
    return read_document(recipes_dir() / f"{line}.yaml")


def number(name: str) -> Version:
    return Version(name) if name != BRANCH else Version("9999")


def clone(recipe: Recipe, repository: str) -> Any:
    return next((item for item in source(recipe, "torch").configure_time if repository in item.url), None)


@pytest.mark.parametrize("path", sorted(recipes_dir().glob("*.yaml")), ids=lambda path: path.stem)
def test_no_problem_is_found(path: object) -> None:
    document = check_recipes([str(path)])
    assert document["recipes"][0]["problems"] == [], "after a change of ops: scripts/pin-embedded.py"


def test_every_line_has_a_recipe_and_no_file_is_forgotten() -> None:
    assert {path.stem for path in recipes_dir().glob("*.yaml")} == {*RELEASES, "main", "base", "quickstart"}
    assert set(RELEASES) >= {f"2.{minor}" for minor in range(4, 16)}
    for line, releases in RELEASES.items():
        assert [release for release in releases if not release.startswith(f"{line}.")] == []
        assert sorted(releases, key=Version, reverse=True) == list(releases)


@pytest.mark.parametrize("name", EVERY)
def test_every_release_has_sources_and_known_commits(name: str) -> None:
    loaded = recipe_of(name)
    recipe = loaded.recipe
    assert recipe.name == name
    assert name == BRANCH or name in recipe.title
    assert without_source(loaded) == []
    for key, component in recipe.components.items():
        if source(recipe, key).commit is None:
            assert recipe.facts[f"components.{key}.source.commit"].confidence == "unknown"
            # Without a commit it is looked up by its ref, which may be unknown only where it can be left out.
            assert source(recipe, key).ref or component.optional


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
        pairs = ((own[key], above[key], f"{path}.{key}".lstrip(".")) for key in own.keys() & above.keys())
        return [found for pair in pairs for found in _repeated(*pair)]
    return [path] if own == above else []


@pytest.mark.parametrize("name", EVERY)
def test_what_goes_with_a_release_is_built_as_its_version(name: str) -> None:
    components = recipe_of(name).recipe.components
    env = {key: part.build.env for key, part in components.items()}
    assert env["torch"].get("PYTORCH_BUILD_VERSION") == (None if name == BRANCH else name)
    assert list(components)[-1] == "ops"
    for key in ("vision", "audio") if name != BRANCH else ():
        assert env[key]["BUILD_VERSION"] == components[key].version
        assert env[key].get("PYTORCH_VERSION", name) == name
        assert source(recipe_of(name).recipe, key).ref == f"v{components[key].version}"
        assert all(name in Requirement(text).specifier for text in components[key].requires)
    assert env["triton"]["TRITON_WHEEL_NAME"] == components["triton"].dist


@pytest.mark.parametrize("name", EVERY)
def test_repositories_that_the_build_clones(name: str) -> None:
    recipe, release = recipe_of(name).recipe, number(name)
    ops = clone(recipe, "torch-xpu-ops")
    assert (ops.path, ops.pin_file) == ("third_party/torch-xpu-ops", "third_party/xpu.txt")
    assert ops.path in source(recipe, "torch").made_by_build
    # 2.6 and older build oneDNN for the GPU from the submodule.
    assert (clone(recipe, "oneDNN") is not None) == (release >= Version("2.7"))
    tla = clone(recipe, "sycl-tla")
    assert (tla is not None) == (release >= Version("2.10"))
    assert bool(recipe.components["torch"].build.large_units) == (tla is not None)


@pytest.mark.parametrize("name", EVERY)
def test_variants_and_requirements(name: str) -> None:
    loaded = recipe_of(name)
    switches = {key: variant.env["torch"] for key, variant in loaded.recipe.variants.items()}
    assert set(switches) == {"full", "dev", "minimal", "debug", "debug-info"}
    assert (switches["debug"], switches["debug-info"]) == ({"DEBUG": 1}, {"REL_WITH_DEB_INFO": 1})
    assert switches["minimal"]["USE_DISTRIBUTED"] == 0
    # Without oneDNN there are no convolutions on XPU.
    assert switches["minimal"]["USE_MKLDNN"] == "{xpu}"
    tools = loaded.recipe.toolchain
    (file,) = tools.requirements
    pins = dict(re.findall(r"^(\S+)==(\S+)", requirement_file(loaded, file).read_text("utf-8"), re.MULTILINE))
    assert pins["mkl-static"] == pins["mkl-include"] == str(tools.mkl)
    assert pins["cmake"] in Requirement(f"cmake {loaded.recipe.needs.cmake}").specifier

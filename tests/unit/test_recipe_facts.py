"""Where values come from: unknown ones, facts about nothing, and facts that must not outlive their value."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cli import Xpubuild
from support.documents import check

from xpubuild.recipe.checked import check_recipes
from xpubuild.recipe.facts import carried, look_up
from xpubuild.recipe.load import load, merge
from xpubuild.recipe.releases import recipe_document
from xpubuild.ui import console
from xpubuild.ui.recipe_views import recipe_view

BASE: dict[str, Any] = {
    "schema": 1,
    "name": "line",
    "title": "a line",
    "needs": {"python": ">=3.10", "gcc": ">=11"},
    "components": {
        "torch": {
            "kind": "source",
            "dist": "torch",
            "source": {"url": "/x", "configure_time": [{"url": "/ops", "pin_file": "pin.txt"}]},
            "build": {"config_settings": {"cmake.define.A": "1"}},
        }
    },
}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "line.yaml"
    path.write_text(yaml.safe_dump({**BASE, **changes}))
    return path


def facts(**known: str) -> dict[str, Any]:
    return {path.replace("__", "."): {"source": source} for path, source in known.items()}


def problems(path: Path) -> list[str]:
    found = check_recipes([str(path)])["recipes"][0]["problems"]
    return [text for text in found if "facts" in text]


def test_paths_reach_through_keys_with_dots_and_into_lists() -> None:
    assert look_up(BASE, "components.torch.build.config_settings.cmake.define.A") == "1"
    assert look_up(BASE, "components.torch.source.configure_time.0.pin_file") == "pin.txt"
    for path in ("needs.cmake", "components.torch.source.configure_time.1", "needs.gcc.0", "name.x"):
        assert look_up(BASE, path) is None


def test_a_fact_is_about_a_value_that_is_there(tmp_path: Path) -> None:
    path = write(tmp_path, facts={**facts(needs__gcc="x"), "needs.cmake": {"source": "y"}})
    assert problems(path) == ["facts lists 'needs.cmake', which the recipe does not have"]


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("needs.cmake", True),
        ("components.torch.source.commit", True),
        ("components.torch.source.configure_time.0.commit", True),
        ("components.torch.build.env.USE_THIS", True),
        ("variants.small.env.torch", True),
        ("loses.0.when.gcc", True),
        *(
            (path, False)
            for path in ("needs.cmkae", "component.torch", "components.torch.source.comit", "title.x")
        ),
    ],
)
def test_an_unknown_value_need_not_be_there_but_is_one_that_recipes_can_have(
    tmp_path: Path, path: str, *, known: bool
) -> None:
    found = problems(write(tmp_path, facts={path: {"source": "asked", "confidence": "unknown"}}))
    assert [path in text for text in found] == ([] if known else [True])


def test_a_value_that_is_there_is_not_unknown(tmp_path: Path) -> None:
    path = write(tmp_path, facts={"needs.gcc": {"source": "?", "confidence": "unknown"}})
    assert problems(path) == ["facts says that 'needs.gcc' is unknown, but the recipe says '>=11'"]


def overlaid(below: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    base = {**BASE, "facts": below}
    return dict(carried(base, over, merge(base, over))["facts"])


def test_the_source_of_the_old_value_says_nothing_about_the_new_one() -> None:
    below = facts(needs__gcc="old", needs__python="python")
    assert overlaid(below, {"needs": {"gcc": ">=13"}}) == facts(needs__python="python")
    assert overlaid(below, {"needs": {"gcc": ">=11"}}) == below
    assert overlaid(below, {"needs": {"gcc": None}}) == facts(needs__python="python")


def test_a_new_fact_replaces_the_old_one_as_a_whole() -> None:
    below = {"needs.cmake": {"source": "nobody says", "confidence": "unknown", "note": "n"}}
    over = {"needs": {"cmake": ">=3.27"}, "facts": facts(needs__cmake="README")}
    assert overlaid(below, over) == facts(needs__cmake="README")
    assert overlaid(below, {"needs": {"cmake": ">=3.27"}}) == {}
    assert overlaid(below, {"facts": {"needs.cmake": None}}) == {}


def test_a_fact_about_a_part_stays_with_what_stays_of_it() -> None:
    below = {**facts(needs="all of them"), "needs.python": {"source": "its own"}}
    assert overlaid(below, {"needs": {"gcc": ">=13"}}) == {"needs.python": {"source": "its own"}}
    assert overlaid(facts(needs="all"), {"needs": {"gcc": ">=13"}}) == facts(needs__python="all")


def test_in_one_file_a_fact_is_about_old_and_new_value() -> None:
    below = {**facts(needs__gcc="README"), "needs.cmake": {"source": "?", "confidence": "unknown"}}
    base, over = {**BASE, "facts": below}, {"needs": {"gcc": ">=13", "cmake": ">=3.27"}}
    assert carried(base, over, merge(base, over), same_author=True)["facts"] == facts(needs__gcc="README")


def test_what_is_true_or_not_needs_a_source(tmp_path: Path) -> None:
    path = write(tmp_path, facts=facts(needs="README"))
    assert set(check_recipes([str(path)])["recipes"][0]["warnings"]) == {
        "components.torch.source.configure_time.0.url has no source in facts",
        "components.torch.source.configure_time.0.pin_file has no source in facts",
    }
    path = write(tmp_path, facts=facts(needs="README", components__torch__source="its CMakeLists.txt"))
    assert check_recipes([str(path)])["recipes"][0]["warnings"] == []


def shown(path: Path) -> list[str]:
    stream = io.StringIO()
    console.show(recipe_view(recipe_document(load(str(path)))), stream, {})
    return stream.getvalue().splitlines()


def test_show_tells_unknown_from_not_set(tmp_path: Path) -> None:
    known = {"needs.gcc": {"source": "README", "confidence": "inferred", "note": "of 2025"}}
    unknown = {"components.torch.source.commit": {"source": "no tag was read", "confidence": "unknown"}}
    path = write(tmp_path, facts={**known, **unknown})
    lines = shown(path)
    below = dict(itertools.pairwise(lines))
    assert below["needs.gcc: >=11"] == "    source: README; of 2025 (confidence: inferred)"
    commit = "components.torch.source.commit: unknown"
    assert below[commit] == "    source: no tag was read (confidence: unknown)"
    assert not any(line.startswith("needs.cmake") for line in lines)
    assert not below["components.torch.dist: torch"].startswith(" ")
    assert below["needs.python: >=3.10"] == "    source: none is given (confidence: none)"
    assert "components.torch.source.configure_time.0.pin_file: pin.txt" in lines
    assert [line for line in lines if line.endswith(": unknown")] == [commit]
    document = recipe_document(load(str(path)))
    check(document, "recipe")
    assert document["unknown"] == ["components.torch.source.commit"]


@pytest.mark.parametrize("name", ["2.8", "main", "quickstart"])
def test_the_summary_of_a_recipe_fits_a_screen(name: str, xpubuild: Xpubuild) -> None:
    recipe = load(name).recipe
    lines = xpubuild.ok("recipes", "show", name).out.splitlines()
    assert len(lines) <= 40
    rows = {line.split()[0]: line for line in lines if line}
    for component, says in recipe.components.items():
        assert says.dist in rows[component]
        assert rows[component].endswith("only with --with" if says.optional else "always")
    assert lines[-1] == f"  xpubuild recipes show {name} -v"
    every = xpubuild.ok("recipes", "show", name, "-v").out
    assert len(every.splitlines()) > 2 * len(lines)
    assert "components.torch.kind: " in every

"""The solver against a table of combinations, each with what it must say; the recipes are those that ship."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from xpubuild.recipe.constraints import solve
from xpubuild.recipe.releases import Release, releases
from xpubuild.recipe.situation import Situation, Verdict
from xpubuild.resources import recipes_dir

TEXT = Path(__file__).with_name("constraints.yaml").read_text("utf-8")
TABLE = yaml.load(TEXT, yaml.BaseLoader)  # noqa: S506 - safe; keeps versions as text
FEWEST = 40
WISHES = {
    "release", "builds", "runs", "why", "says", "loses", "notes", "oneapi_used", "python_used", "source",
}  # fmt: skip


def rows() -> list[Any]:
    return [pytest.param(row, id=f"{row['release']}-{number}") for number, row in enumerate(TABLE["rows"])]


@pytest.fixture(scope="module")
def known() -> dict[str, Release]:
    return {release.version: release for release in releases(recipes_dir())}


def situation(row: dict[str, Any]) -> Situation:
    fields: dict[str, Any] = {name: value for name, value in row.items() if name not in WISHES}
    fields = {**TABLE["base"], **fields}
    fields = {name: None if value in ("null", "") else value for name, value in fields.items()}
    if "abi" in fields:
        fields["cxx11_abi"] = int(fields.pop("abi"))
    for name in ("oneapi", "python", "arch", "components", "ocloc_lacks"):
        if fields.get(name) is not None:
            fields[name] = tuple(fields[name])
    return Situation(**fields)


def named(verdict: Verdict, answer: str) -> set[str]:
    found = {"no": verdict.against(), "unknown": verdict.open_questions()}[answer]
    return {reason.constraint for reason in found}


@pytest.mark.parametrize("row", rows())
def test_the_verdict(row: dict[str, Any], known: dict[str, Release]) -> None:
    verdict = solve(known[row["release"]].recipe, situation(row))
    assert row.get("builds", verdict.builds) == verdict.builds, verdict.reasons
    assert row.get("runs", verdict.runs) == verdict.runs, verdict.reasons
    wrong = {row.get("builds"), row.get("runs")} & {"no", "unknown"}
    assert bool(wrong) == ("why" in row)
    if wrong:
        assert named(verdict, wrong.pop()) == {row["why"]}
    if "says" in row:
        assert any(row["says"] in reason.text for reason in verdict.reasons)
    if "loses" in row:
        lost = [loss.feature for loss in verdict.loses if loss.certain]
        assert len(lost) == len(row["loses"])
        assert all(word in feature for word, feature in zip(row["loses"], lost, strict=True))
    if "notes" in row:
        assert {note.constraint for note in verdict.notes()} == set(row["notes"])
    assert row.get("oneapi_used", verdict.oneapi) == verdict.oneapi
    assert row.get("python_used", verdict.python) == verdict.python


def test_every_reason_that_says_no_tells_what_was_found_and_where_it_is_known_from(
    known: dict[str, Release],
) -> None:
    for row in TABLE["rows"]:
        for reason in solve(known[row["release"]].recipe, situation(row)).against():
            assert reason.found
            assert reason.todo, reason
            if reason.constraint in ("oneapi", "gcc", "python", "cmake", "gpu", "cxx11_abi", "ocloc"):
                assert reason.source, (row["release"], reason)


def test_the_table_is_large_and_every_row_has_a_source() -> None:
    assert len(TABLE["rows"]) >= FEWEST
    assert all(row["source"] for row in TABLE["rows"])
    assert len({str(sorted(row.items())) for row in TABLE["rows"]}) == len(TABLE["rows"])
    assert {row["release"] for row in TABLE["rows"]} >= {"2.4.0", "2.7.0", "2.8.0", "2.13.0", "2.15.0"}

"""The parts of ``make bench``: sides in turn, ratios of one round, what failed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from benching.measure import Row, Side, measure


def side(name: str, *words: str, log: Path) -> Side:
    return Side(name, [["sh", "-c", f"echo {name} >> '{log}'; {' '.join(words) or 'true'}"]])


def test_sides_run_in_turn_after_a_round_that_does_not_count(tmp_path: Path) -> None:
    log = tmp_path / "log"
    found = measure(Row("r", (side("a", log=log), side("b", log=log))), 2, tmp_path)
    assert log.read_text().split() == ["a", "b"] * 3
    assert set(found["sides"]) == {"a", "b"}
    ratio = found["sides"]["b"]["ours_to_this_wall"]
    assert ratio["low"] <= ratio["median"] <= ratio["high"]
    assert "ours_to_this_wall" not in found["sides"]["a"]
    assert found["failed"] == {}


def test_what_a_row_reads_is_made_once_and_before(tmp_path: Path) -> None:
    log = tmp_path / "log"
    row = Row("r", (side("a", log=log),), slow=True, prepare=lambda: log.write_text("made "))
    measure(row, 2, tmp_path)
    assert log.read_text().split() == ["made", "a", "a"]


def test_a_row_whose_input_cannot_be_made_is_told_and_the_others_run(tmp_path: Path) -> None:
    found = measure(
        Row("r", (side("a", log=tmp_path / "log"),), prepare=(tmp_path / "none").iterdir().__next__),
        2,
        tmp_path,
    )
    assert found["sides"] == {}
    assert "none" in found["failed"]["a"]


def test_each_run_has_a_folder_of_its_own_and_its_facts(tmp_path: Path) -> None:
    def facts(folder: Path) -> Mapping[str, float]:
        return {"size": float((folder / "x").stat().st_size)}

    one = Side("a", [["sh", "-c", "test ! -e '{new}/x' && printf 123 > '{new}/x'"]], facts=facts)
    found = measure(Row("r", (one,), slow=True), 2, tmp_path)
    assert found["sides"]["a"]["facts"]["size"] == {"median": 3.0, "low": 3.0, "high": 3.0}
    assert list(tmp_path.iterdir()) == []


def test_what_fails_is_told_and_not_measured(tmp_path: Path) -> None:
    log = tmp_path / "log"
    peer = side("b", "echo why >&2; exit 3", log=log)
    found = measure(Row("r", (side("a", log=log), peer), slow=True), 2, tmp_path)
    assert log.read_text().split() == ["a", "b", "a"]
    assert set(found["sides"]) == {"a"}
    assert found["failed"]["b"].endswith("ended with 3: why")

"""The parts of ``make bench``: sides in turn, ratios of one round, what failed, and the replay of a build."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from benching.forecasts import Build, builds, error_at, report, weights_of
from benching.measure import Row, Side, measure

LOGS = Path(__file__).parents[2] / "benchmarks" / "ninja-logs"


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


def test_a_build_at_an_even_pace_is_foretold_by_its_count() -> None:
    even = Build("even", [(f"x/{number}.o", float(number), number + 1.0) for number in range(100)])
    assert error_at(even, 0.25) == pytest.approx(0, abs=0.02)
    assert error_at(even, 0.5, expected=100.0) == pytest.approx(0, abs=0.01)


def test_the_edges_of_an_earlier_build_tell_of_large_files_at_the_end() -> None:
    edges = [(f"s/{number}.o", float(number), number + 1.0) for number in range(50)]
    edges += [(f"l/{number}.o", 50 + 10.0 * number, 60 + 10.0 * number) for number in range(15)]
    build = Build("late", edges)
    slower = weights_of(Build("slow", [(name, 2 * start, 2 * end) for name, start, end in edges]))
    by_count, by_edges = error_at(build, 0.25), error_at(build, 0.25, history=slower)
    assert by_count is not None
    assert by_count < -0.5
    assert by_edges == pytest.approx(0, abs=0.01)


def test_the_logs_that_are_kept_can_be_replayed() -> None:
    found = report(builds(LOGS))
    assert {item["build"] for item in found} >= {"torchvision-1-job", "dawn-tint-10-jobs"}
    for item in found:
        assert item["edges"] > 40
        assert set(item["errors"]["by count"]) == {"10%", "25%", "50%", "75%"}

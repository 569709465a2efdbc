"""Operators in shards: what a crash, a hang and the end of the time cost. The processes are small scripts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from xpubuild.verify.suite import database_shards
from xpubuild.verify.suite.database_shards import Limits, Pool

#: Speaks the protocol of ``database_trial.py``; operators are named after what they do.
WORKER = """\
import json, os, sys, time

def tell(**record):
    print(json.dumps(record), flush=True)

if os.path.exists("{broken}"):
    sys.exit("no torch here")
read = lambda: json.loads(sys.stdin.readline() or "null")
tell(event="ready")
current = read()
while current:
    name, kinds = current
    tell(event="next")
    following = read()
    for kind in kinds:
        tell(event="begin", operator=name, type=kind)
        if name == "crash":
            os.abort()
        if name == "hang":
            time.sleep(60)
        tell(event="end", operator=name, type=kind, state="passed", detail="", runs={{}}, seconds=0.0)
    current = following
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    worker, broken = tmp_path / "worker.py", tmp_path / "broken"
    worker.write_text(WORKER.format(broken=broken), "utf-8")
    monkeypatch.setattr(database_shards, "python", lambda *_: [sys.executable, str(worker)])

    def start(
        names: list[str],
        *,
        shards: int = 1,
        cell_s: float = 30.0,
        whole_s: float | None = None,
        fit: bool = True,
    ) -> tuple[dict[tuple[str, str], str], Pool]:
        if not fit:
            broken.touch()
        cells: list[dict[str, Any]] = []
        pool = Pool(["cpu"] * shards, tmp_path, Limits(cell_s, whole_s), cells.append, {})
        pool.run([(name, ["float32", "int64"]) for name in names])
        found = {(one["operator"], one["type"]): one["state"] for one in cells}
        assert len(found) == len(cells)  # none twice
        return found, pool

    return start


def both(name: str, first: str = "passed", second: str = "passed") -> dict[tuple[str, str], str]:
    return {(name, "float32"): first, (name, "int64"): second}


@pytest.mark.parametrize("shards", [1, 3])
def test_each_operator_is_run_once(run: Any, shards: int) -> None:
    found, pool = run([f"op{number}" for number in range(7)], shards=shards)
    assert found == {key: state for number in range(7) for key, state in both(f"op{number}").items()}
    assert pool.restarts == 0


def test_a_crash_costs_one_operator(run: Any) -> None:
    found, pool = run(["one", "crash", "two", "three"])
    assert found == {**both("one"), **both("crash", "crashed", "not run"), **both("two"), **both("three")}
    assert pool.restarts == 1


def test_a_crash_of_the_last_operator_is_not_lost(run: Any) -> None:
    found, pool = run(["one", "crash"])
    assert found == {**both("one"), **both("crash", "crashed", "not run")}
    assert pool.restarts == 0


def test_a_hang_costs_one_operator(run: Any) -> None:
    found, _ = run(["one", "hang", "two"], cell_s=3.0)
    assert found == {**both("one"), **both("hang", "timed out", "not run"), **both("two")}


def test_when_the_time_is_over_nothing_more_begins(run: Any) -> None:
    assert run(["one", "two"], whole_s=1e-9)[0] == {}


def test_a_process_that_cannot_start_ends_the_run_with_its_words(run: Any) -> None:
    with pytest.raises(RuntimeError, match=r"at its start.*no torch here"):
        run(["one", "two"], fit=False)

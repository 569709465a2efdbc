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
            print("Fatal Python error: one\\nthe stack", file=sys.stderr)
            sys.exit(5)
        if name == "hang":
            time.sleep(60)
        tell(event="end", operator=name, type=kind, state="passed", detail="", runs={{"out": 2}}, seconds=0.5)
    current = following
sys.exit(int(os.environ["STATUS"]))
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    worker, broken = tmp_path / "worker.py", tmp_path / "broken"
    worker.write_text(WORKER.format(broken=broken), "utf-8")
    monkeypatch.setattr(database_shards, "python", lambda *_: [sys.executable, str(worker)])

    def start(
        names: list[str], *, shards: int = 1, cell_s: float = 30.0, whole_s: float | None = None,
        fit: bool = True, status: int = 0, on_cell: Any = lambda _: None,
    ) -> tuple[dict[tuple[str, str], dict[str, Any]], Pool]:  # fmt: skip
        if not fit:
            broken.touch()
        cells: dict[tuple[str, str], dict[str, Any]] = {}

        def keep(cell: dict[str, Any]) -> None:
            on_cell(cell)
            key = (cell.pop("operator"), cell.pop("type"))
            assert key not in cells
            cells[key] = cell

        pool = Pool(["cpu"] * shards, tmp_path, Limits(cell_s, whole_s), keep, {"STATUS": str(status)})
        pool.run([(name, ["float32", "int64"]) for name in names])
        return cells, pool

    return start


def states(cells: dict[tuple[str, str], dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for (name, _), cell in sorted(cells.items()):
        found.setdefault(name, []).append(cell["state"])
    return found


@pytest.mark.parametrize("shards", [1, 3])
def test_each_operator_is_run_once(run: Any, shards: int) -> None:
    cells, pool = run([f"op{number}" for number in range(7)], shards=shards)
    assert states(cells) == {f"op{number}": ["passed", "passed"] for number in range(7)}
    assert cells["op3", "int64"] == {"state": "passed", "detail": "", "runs": {"out": 2}, "seconds": 0.5}
    assert pool.restarts == 0


def test_a_crash_costs_one_operator(run: Any) -> None:
    cells, pool = run(["one", "crash", "two", "three"])
    passed = ["passed", "passed"]
    assert states(cells) == {"one": passed, "crash": ["crashed", "not run"], "two": passed, "three": passed}
    # Of a native stack the line above it is told.
    detail = cells["crash", "float32"]["detail"]
    assert detail == "its process exited with code 5: Fatal Python error: one"
    assert cells["crash", "int64"]["detail"] == "it crashed in float32"
    assert pool.restarts == 1
    assert states(run(["last", "crash"])[0])["crash"] == ["crashed", "not run"]


def test_a_hang_costs_one_operator(run: Any) -> None:
    cells, _ = run(["one", "hang", "two"], cell_s=3.0)
    assert states(cells) == {
        "one": ["passed", "passed"], "hang": ["timed out", "not run"], "two": ["passed", "passed"],
    }  # fmt: skip


def test_when_the_time_is_over_nothing_more_begins(run: Any) -> None:
    assert run(["one", "two"], whole_s=1e-9)[0] == {}


def test_processes_that_cannot_start_or_end_well_end_the_run_with_their_words(run: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^a process of operators exited with code 4"):
        run(["one"], status=4)

    def fails(_: object) -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        run(["one", "two", "three"], shards=2, on_cell=fails)
    with pytest.raises(RuntimeError, match=r"at its start.*no torch here"):
        run(["one", "two"], fit=False)

"""``make torture``: what an attempt is judged by, and the table of results."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from support.ordeal.attempts import SHARES, Result, kind_of
from support.ordeal.inputs import Hostile
from support.ordeal.judge import LOST, Answer, LetInError, LostError
from support.ordeal.table import append, failures, read, table

ERROR = {"what": "the disk is full", "why": "no room", "fix": "make room", "commands": [], "log": None}


def answer(code: int, error: dict[str, object] | None = None, err: str = "error: x") -> Answer:
    out = json.dumps({"schema": "xpubuild.error/1", "error": error}) if error else ""
    return Answer(("install",), code, out, err, 1.0)


def test_a_seed_is_always_the_same_attempt_and_all_kinds_come() -> None:
    kinds = [kind_of(seed) for seed in range(1000)]
    assert kinds == [kind_of(seed) for seed in range(1000)]
    assert set(kinds) == set(SHARES)
    assert kinds.count("kill") > 200


@pytest.mark.parametrize("code", [0, 2, 52, 130])
def test_a_documented_error_with_reason_and_way_out_is_clear(code: int) -> None:
    answer(code, ERROR if code else None).must_be_clear()


@pytest.mark.parametrize(
    "unclear",
    [
        answer(1, ERROR),
        answer(127),
        answer(-9),
        answer(52, {**ERROR, "why": ""}),
        answer(52, {**ERROR, "fix": ""}),
        answer(40, err=""),
        answer(40, ERROR, 'Traceback (most recent call last):\n  File "x"'),
        answer(0, err='Traceback (most recent call last):\n  File "x"'),
    ],
    ids=str,
)
def test_other_ends_are_lost(unclear: Answer) -> None:
    with pytest.raises(LostError):
        unclear.must_be_clear()


def test_only_the_codes_that_a_fault_may_end_with() -> None:
    answer(30, ERROR).must_be_clear(30)
    with pytest.raises(LostError):
        answer(40, ERROR).must_be_clear(30)


def test_what_a_terminal_obeys_is_let_in() -> None:
    answer(0, err="\ttext\r\n").must_be_printable()
    with pytest.raises(LetInError):
        answer(0, err="a\x9b2J").must_be_printable()


def test_hostile_inputs_come_from_the_seed_alone(tmp_path: Path) -> None:
    def made(seed: int) -> list[object]:
        hostile = Hostile(random.Random(seed), tmp_path / "outside")  # noqa: S311
        good = b"a: {b: [1, 2]}\nc: d\n"
        return [hostile.yaml(good), hostile.json(b'{"a": [1]}'), hostile.variables(), hostile.text("a\nb\n")]

    assert [made(seed) for seed in range(40)] == [made(seed) for seed in range(40)]


def test_writing_outside_is_let_in(tmp_path: Path) -> None:
    hostile = Hostile(random.Random(1), tmp_path / "outside")  # noqa: S311
    hostile.prepare()
    hostile.must_be_kept()
    (tmp_path / "outside" / "planted").touch()
    with pytest.raises(LetInError, match="planted"):
        hostile.must_be_kept()


def test_results_are_kept_by_seed_and_a_cut_line_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append(path, Result(1, "kill", LOST, 1.0, [], []))
    append(path, Result(1, "kill", "carried on", 1.0, [], [], hits=7))
    append(path, Result(2, "kill", LOST, 1.0, [], [], "why", "quickstart"))
    with path.open("a") as file:
        file.write('{"seed": 3, "ki')
    append(path, Result(4, "full", "clear error", 1.0, [], []))
    found = read(path)
    assert [result.seed for result in found] == [1, 2, 4]
    assert [result.seed for result in failures(found)] == [2]
    assert table(found).splitlines() == [
        "| | attempts | disturbances | carried on | clear error | lost | let in |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| full | 1 | 1 | 0 | 1 | 0 | 0 |",
        "| kill | 1 | 7 | 1 | 0 | 0 | 0 |",
        "| kill of quickstart | 1 | 1 | 0 | 0 | 1 | 0 |",
        "| all | 3 | 9 | 1 | 1 | 1 | 0 |",
    ]

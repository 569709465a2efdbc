"""The table of operators: states, known failures, the accepted run, the document and the picture."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from support.imports import ROOT

from xpubuild.verify.suite.database import by_use
from xpubuild.verify.suite.database_table import STATES, Table, known_failures, release_of, to_accept

FACTS = {"device": "Intel(R) Data Center GPU Max 1550", "type": "xpu", "driver": "1.6", "torch": "2.9.1+xpu"}
TODAY = datetime.date(2026, 11, 23)
CELLS = [(name, kind) for name in ("add", "sort", "svd") for kind in ("float32", "int64")]
KNOWN: dict[str, Any] = {
    "operators": ["so*"], "types": ["float32"], "device": "xpu", "model": "*max*",
    "releases": ["2.8", "2.10"],
    "issue": "https://example.org/1", "source": "https://example.org/list", "expires": "2026-12-31",
    "reason": "unstable",
}  # fmt: skip


def table(states: dict[tuple[str, str], str], *known: dict[str, Any], accepted: Any = None) -> dict[str, Any]:
    made = Table(CELLS, FACTS, accepted, known, TODAY)
    for (name, kind), state in states.items():
        made.add({"operator": name, "type": kind, "state": state, "detail": "why", "runs": {"forward": 2},
                  "parts": ["forward"]})  # fmt: skip
    return made.document()


def state(document: dict[str, Any], name: str, kind: str = "float32") -> str:
    return str(next(c["state"] for c in document["cells"] if (c["operator"], c["type"]) == (name, kind)))


def test_states_add_up_to_the_denominator() -> None:
    document = table({("add", "float32"): "passed", ("sort", "float32"): "crashed"})
    assert document["states"] == {**dict.fromkeys(STATES, 0), "passed": 1, "crashed": 1, "not run": 4}
    assert document["total"] == sum(document["states"].values()) == len(CELLS)
    assert document["runs"] == {"forward": 4}


@pytest.mark.parametrize("bad", ["failed", "crashed", "timed out"])
def test_a_known_failure_is_shown_as_such(bad: str) -> None:
    document = table({("sort", "float32"): bad, ("sort", "int64"): bad}, KNOWN)
    assert (state(document, "sort"), state(document, "sort", "int64")) == ("known failure", bad)
    assert "https://example.org/1" in next(
        c["detail"] for c in document["cells"] if c["state"] == "known failure"
    )


def test_a_known_failure_that_passes_is_reported() -> None:
    assert table({("sort", "float32"): "passed"}, KNOWN)["unexpected"] == ["sort float32"]


@pytest.mark.parametrize(
    "other",
    [{"expires": "2026-11-22"}, {"device": "cuda"}, {"model": "*arc*"}, {"releases": ["2.10", "2.13"]},
     {"releases": ["2.4", "2.8"]}, {"types": ["int64"]}, {"operators": ["add"]}, {"parts": ["backward"]}],
)  # fmt: skip
def test_an_entry_for_something_else_covers_nothing(other: dict[str, Any]) -> None:
    assert state(table({("sort", "float32"): "failed"}, {**KNOWN, **other}), "sort") == "failed"


def test_the_accepted_run_tells_regressions_from_what_was_bad_before() -> None:
    first = table({("add", "float32"): "passed", ("sort", "float32"): "failed"})
    accepted = to_accept(first)
    states = {("add", "float32"): "timed out", ("sort", "float32"): "crashed", ("svd", "int64"): "failed"}
    again = table(states, accepted=accepted)
    assert again["regressions"] == ["add float32"]
    assert again["accepted"] == ["sort float32"]
    assert again["compared_with"] == "torch 2.9.1+xpu"
    elsewhere = table({("add", "float32"): "failed"}, accepted={**accepted, "driver": "1.7"})
    assert (elsewhere["regressions"], elsewhere["compared_with"]) == ([], "")


def test_the_published_list_is_whole() -> None:
    for entry in known_failures():
        assert entry["device"] in ("xpu", "cuda", "cpu")
        source = entry["source"]
        assert source.startswith("https://") or (ROOT / source).is_file()
        assert release_of(entry["releases"][0]) <= release_of(entry["releases"][1])
        assert datetime.date.fromisoformat(entry["expires"]) > TODAY
        assert entry["reason"]
        assert entry["operators"]
        assert "issue" in entry


def test_the_most_used_operators_come_first(tmp_path: Path) -> None:
    assert by_use(["zeta", "svd", "mul", "add"])[:2] == ["mul", "add"]
    assert by_use(["zeta", "alpha"]) == ["zeta", "alpha"]

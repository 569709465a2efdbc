"""Parts of verify that need no target: tables of runs, records, lists of checks, triton."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from xpubuild.documents import plain
from xpubuild.verify import harness
from xpubuild.verify.catalogue import list_checks
from xpubuild.verify.harness import _Session
from xpubuild.verify.model import CheckResult
from xpubuild.verify.reports import checks_document
from xpubuild.verify.suite import triton_pairing
from xpubuild.verify.suite.database_table import Table


def test_the_table_of_operators_is_that_of_the_check_that_wrote_it(tmp_path: Path) -> None:
    (tmp_path / "operators.json").write_text('{"a": 1}')
    options = {"results": str(tmp_path)}

    def result(group: str, **metrics: Any) -> dict[str, CheckResult]:
        return {"x": CheckResult("x", "t", group, "pass", metrics=metrics)}

    assert harness._table(options, result("database", total=3)) == {"a": 1}
    assert harness._table(options, result("database")) is None
    assert harness._table(options, result("aten", total=3)) is None


def test_records_of_progress_and_of_facts_are_handed_on() -> None:
    told: list[tuple[str, ...]] = []
    session = _Session([], lambda _: None, lambda name: told.append((name,)))
    session.on_record({"event": "progress", "id": "a", "detail": 5}, ())
    session.progress = lambda *words: told.append(words)
    session.on_record({"event": "start", "id": "a"}, ())
    session.on_record({"event": "progress", "id": "a", "detail": 5}, ())
    session.on_record({"event": "facts", "torch": {"version": "2"}}, ())
    session.on_record({"event": "facts", "device": {"name": "d"}}, ())
    session.on_record({"event": "another"}, ())
    assert told == [("a",), ("a", "5")]
    assert session.facts == {"torch": {"version": "2"}, "device": {"name": "d"}}


def test_the_list_of_checks_and_of_cells() -> None:
    checks = list_checks()
    document = checks_document(checks)
    assert document == {"schema": "xpubuild.verify-checks/1", "checks": plain(checks)}
    assert json.loads(json.dumps(document)) == document
    cells = [("a", "float32"), ("b", "int64")]
    assert Table(cells, {"device": "d", "driver": "1", "type": "cpu", "torch": "2.9"}).cells() == cells


@pytest.mark.parametrize("backends", [None, {"intel": 1, "nvidia": 2}])
def test_the_triton_that_is_imported(
    monkeypatch: pytest.MonkeyPatch, backends: dict[str, int] | None
) -> None:
    triton, inner = ModuleType("triton"), ModuleType("triton.backends")
    vars(triton)["__version__"] = "3.5.0"
    vars(triton)["__path__"] = []
    monkeypatch.setitem(sys.modules, "triton", triton)
    if backends is None:
        monkeypatch.delitem(sys.modules, "triton.backends", raising=False)
    else:
        vars(inner)["backends"] = backends
        monkeypatch.setitem(sys.modules, "triton.backends", inner)
    assert triton_pairing.imported() == ("3.5.0", frozenset(backends or ()))

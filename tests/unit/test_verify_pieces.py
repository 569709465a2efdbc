"""Parts of verify that need no target: tables of runs, records, lists of checks, linked libraries, triton."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.artifacts import tiny_elf

from xpubuild.documents import plain
from xpubuild.verify import harness
from xpubuild.verify.catalogue import list_checks
from xpubuild.verify.harness import _Session
from xpubuild.verify.model import CheckResult
from xpubuild.verify.reports import checks_document
from xpubuild.verify.suite import triton_pairing
from xpubuild.verify.suite.database_table import Table
from xpubuild.verify.suite.elf import Dynamic, ElfError, _file_offset, closure, read_dynamic


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


def write(path: Path, *needed: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(tiny_elf(soname=path.name, needed=needed))
    return path


def test_libraries_that_others_bring_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = write(tmp_path / "liba.so", "libb.so", "libnone.so"), write(tmp_path / "x" / "libb.so")
    assert read_dynamic(first) == Dynamic(("libb.so", "libnone.so"), "liba.so")
    found = closure([first])
    assert (found.found, found.missing) == ({}, {"libb.so": first, "libnone.so": first})
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{tmp_path}/x")
    assert closure([first]).found == {"libb.so": second}
    named = write(tmp_path / "libc.so", str(second), str(tmp_path / "none"))
    assert closure([named]).found == {str(second): second}
    assert closure([named]).missing == {str(tmp_path / "none"): named}
    for start in (b"\x7fELF\x01\x01", b"\x7fELF\x02\x02", b"else"):
        second.write_bytes(start)
        assert closure([first]).found == {}
    second.write_bytes(b"\x7fELF\x02\x01")
    damaged = closure([first])
    assert damaged.found == {"libb.so": second}
    assert [text.partition(": ")[0] for text in damaged.damaged] == [f"{second} is damaged"]


def test_a_name_is_in_a_segment_of_the_file(tmp_path: Path) -> None:
    segment = (1, 5, 0x100, 0x1000, 0, 0x10, 0, 0)
    assert [_file_offset(at, [segment], tmp_path) for at in (0x1000, 0x100F)] == [0x100, 0x10F]
    for outside in (0xFFF, 0x1010):
        with pytest.raises(ElfError, match=r"is damaged: its names are in no segment$"):
            _file_offset(outside, [segment], tmp_path)
    data = bytearray(tiny_elf())
    # Without a dynamic section nothing is needed.
    data[64 + 56 : 64 + 60] = bytes(4)
    (tmp_path / "lib.so").write_bytes(data)
    assert read_dynamic(tmp_path / "lib.so") == Dynamic()


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

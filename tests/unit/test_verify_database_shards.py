"""Operators in shards: what a crash, a hang and the end of the time cost. The processes are small scripts."""

from __future__ import annotations

import datetime
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from support.imports import ROOT

from xpubuild.verify.suite import database, database_shards
from xpubuild.verify.suite.database import by_use, differentiable, name_of, objections, tolerance, types_of
from xpubuild.verify.suite.database_shards import Limits, Pool
from xpubuild.verify.suite.database_table import STATES, Table, known_failures, release_of, to_accept

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


# ---- The table of operators: states, known failures, the accepted run, the document and the picture


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


# ---- What is read of PyTorch's operator database, and the context of a check, with a stand-in for torch


class DType(str):
    """A type of elements, by its name."""

    __slots__ = ()

    @property
    def is_complex(self) -> bool:
        return self.startswith("complex")


TORCH = SimpleNamespace(**{name: DType(name) for name in database.TYPES if not name.startswith("uint1")})
Decorators = list[Callable[[Any], Any]]


class Info:
    """An entry of the database: other types on each kind of device, and decorators by test."""

    def __init__(self, name: str = "add", variant: str = "", **more: Any) -> None:
        self.name, self.variant_test_name, self.decorators = name, variant, more.pop("decorators", [])
        self.asked: list[tuple[Any, ...]] = []
        self._by_test: dict[tuple[str, str], Decorators] = more.pop("by_test", {})
        vars(self).update(more)

    def supported_dtypes(self, kind: str) -> set[str]:
        return {"cuda": {"int64", "float32"}, "xpu": {"bool"}, "cpu": {"float64", "uint16"}}[kind]

    def supported_backward_dtypes(self, kind: str) -> set[str]:
        return {"cuda": {"float32", "complex32"}, "cpu": {"float64"}}[kind]

    def get_decorators(
        self, group: str, test: str, kind: str, dtype: str, more: dict[str, Any]
    ) -> Decorators:
        self.asked.append((test, kind, dtype, more))
        return self._by_test.get((test, kind), [])


def test_names_types_and_gradients() -> None:
    assert (name_of(Info()), name_of(Info("pad", "circular"))) == ("add", "pad.circular")
    assert types_of(TORCH, Info(), "cpu:0") == ["float64"]
    assert types_of(TORCH, Info(), "cuda") == types_of(TORCH, Info(), "xpu:1") == ["float32", "int64"]
    assert types_of(TORCH, Info(dtypesIf={"cuda": ()}), "xpu") == ["float32", "int64"]
    assert types_of(TORCH, Info(dtypesIf={"xpu": ()}), "xpu") == ["bool"]
    found = [differentiable(TORCH, Info(), TORCH.float32, device) for device in ("xpu:0", "cuda", "cpu")]
    assert found == [True, True, False]
    assert differentiable(TORCH, Info(), TORCH.complex32, "cuda") is False


def needs_more(_: Any) -> Any:
    raise AttributeError("needs a real test")


def fails(_: Any) -> Any:
    def test(_self: Any) -> None:
        raise KeyError("this says nothing")

    return test


def skips(_: Any) -> Any:
    def test(self: Any) -> None:
        raise unittest.SkipTest(f"on {self.device_type} {self.get_primary_device()} {'x' * 200}")

    return test


@pytest.mark.parametrize(
    ("decorators", "reason"),
    [
        ([], ""),
        ([needs_more, unittest.skip("it is slow")], "upstream skips it: it is slow"),
        ([unittest.skip("")], "upstream skips it: no reason"),
        ([unittest.skip("x" * 200)], f"upstream skips it: {'x' * 200}"[:120]),
        ([unittest.expectedFailure], "upstream expects it to fail"),
        ([fails], ""),
        ([lambda _: None], ""),
        ([skips], f"upstream skips it: on xpu xpu {'x' * 200}"[:120]),
    ],
)
def test_what_upstream_says_against_a_case(decorators: Decorators, reason: str) -> None:
    info = Info(by_test={("test_out", "xpu"): decorators})
    assert objections(TORCH, info, TORCH.float16, "xpu:0") == ({"out": reason} if reason else {})
    assert info.asked == [
        ("test_compare_cpu", "xpu", "float16", {}), ("test_compare_cpu", "cuda", "float16", {}),
        ("test_noncontiguous_samples", "xpu", "float16", {}),
        ("test_variant_consistency_eager", "xpu", "float16", {}), ("test_out", "xpu", "float16", {}),
        ("test_fn_grad", "xpu", "float16", {}), ("test_fn_grad", "xpu", "float64", {}),
    ]  # fmt: skip


def wider(given: Any, **more: Any) -> Any:
    return SimpleNamespace(decorators=[SimpleNamespace(d=given), SimpleNamespace()], **more)


def test_tolerances_are_the_widest_of_uncompiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torch.testing._comparison")
    vars(module)["default_tolerances"] = lambda dtype: {"float32": (1e-6, 1e-5), "int64": (0, 0)}[dtype]
    monkeypatch.setitem(sys.modules, "torch.testing._comparison", module)
    pair = SimpleNamespace(rtol=1e-3, atol=1e-9)
    entries = [
        wider({"float32": pair}, device_type="cuda"), wider({"float32": 1e-4}, device_type=None),
        wider({"float32": 5.0}, device_type="mps"), wider({"float32": 5.0}, cls_name="TestDecomp"),
        wider({"float16": 5.0}), SimpleNamespace(d={"float32": 1e-7}), SimpleNamespace(d=7), wider(None),
    ]  # fmt: skip
    info = Info(decorators=entries)
    assert tolerance(info, "float32", "xpu:0") == tolerance(info, "float32", "cuda") == (1e-3, 1e-4)
    assert tolerance(info, "float32", "cpu") == (1e-6, 1e-4)
    assert tolerance(info, "int64", "cpu") == (0.0, 0.0)


def test_what_is_not_unique_is_not_compared() -> None:
    assert "as frequent" in objections(TORCH, Info("mode"), TORCH.float32, "cpu")["forward"]

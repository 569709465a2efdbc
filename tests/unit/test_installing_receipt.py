"""A receipt, whole: of a plan, a journal and the files of a made-up workspace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.plan_files import target_for

from xpubuild import __version__
from xpubuild.engine.files import write_json
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Plan, Step
from xpubuild.engine.state import WATCHED
from xpubuild.errors import UsageError
from xpubuild.install.options import Resolved
from xpubuild.install.receipt import make_receipt
from xpubuild.install.target import OneapiFacts, Prepared
from xpubuild.supply.depot.record import TAKEN
from xpubuild.workspace.activation import read_receipt
from xpubuild.workspace.layout import Layout

STEPS = ("env", "torch", "ops.source", "ops.wheel", "vision.wheel", "verify")
TOLD = {"id": "a-warning", "text": "text", "lines": ["one", "two"], "more": "is not in a receipt"}
COMMAND: Any = SimpleNamespace(
    duration_s=2.00049, user_s=1.23456, system_s=0.98765, max_rss_bytes=5, peak_tree_bytes=7, returncode=0,
    memory=(),
)  # fmt: skip
EVIDENCE: dict[str, list[dict[str, Any]]] = {
    "env": [{"proof": "environment"}],
    "torch": [],
    "ops.source": [{"proof": "tree"}, {"proof": "other"}],
    "ops.wheel": [
        {"proof": "audit", "audit": {"wheel": "/stage/ops-1.whl", "status": "ok", "sha256": "a"}},
        {"proof": WATCHED, "warnings": [TOLD]},
        {"proof": TAKEN, "store": "/a store"},
    ],
    "vision.wheel": [
        {"proof": "audit", "audit": {"wheel": "vision-1.whl"}},
        {"proof": "other", "audit": "none"},
    ],
    "verify": [],
}
REPORT = {
    "status": "fail",
    "torch": {"version": "2"},
    "checks": [
        {"id": status, "status": status, "duration_s": 1.5, "detail": "d"}
        for status in ("pass", "pass", "fail", "skip", "crash", "timeout")
    ],
}
ONEAPI = OneapiFacts(components=({"name": "compiler", "path": "/o"},), difference={"set": {"A": "b"}})


def world(root: Path, done: tuple[str, ...]) -> tuple[Plan, Journal]:
    """Make a workspace in which these steps are done, one failed, and one was done for another plan."""
    layout, plan = Layout(root), Plan(
        "mine", str(root), "digest", tuple(Step(name, f"title of {name}") for name in STEPS),
        {name: f"print of {name}" for name in STEPS}, {}, {"target": "cpu"},
    )  # fmt: skip
    journal = Journal(layout.journal)
    journal.start_run("mine", ["xpubuild", "install"], "1")
    for name in STEPS:
        journal.begin(name, f"print of {name}")
        if name in done:
            journal.done(name, evidence=EVIDENCE[name], witnesses={}, published=[])
    journal.command("ops.wheel", ["make"], COMMAND, "/a log")
    journal.command("something", ["make"], COMMAND, "/a log")
    report = layout.pip_report("torch", "torch")
    report.parent.mkdir(parents=True)
    install = [
        {"metadata": {"name": "torch", "version": "2"},
         "download_info": {"archive_info": {"hashes": {"sha256": "b"}}}},
        {"metadata": {"name": "sympy", "version": "1"}, "download_info": {"url": "u"}},
        {"metadata": {"name": "numpy", "version": "3"}},
    ]  # fmt: skip
    report.write_text(json.dumps({"install": install}))
    layout.verify_report.parent.mkdir(parents=True, exist_ok=True)
    layout.verify_report.write_text(json.dumps(REPORT))
    return plan, journal


def prepared(root: Path, plan: Plan, **facts: Any) -> Prepared:
    return Prepared(target_for("quickstart", workspace=str(root), facts=facts), plan, 1.0)


def test_a_receipt_says_what_was_done_and_found(tmp_path: Path) -> None:
    plan, journal = world(tmp_path, STEPS)
    found = Resolved("main", "c", "u", "w")
    facts = {"oneapi": ONEAPI, "resolved": {"torch": found}, "host": {"os": "x"}}
    with journal:
        receipt = make_receipt(prepared(tmp_path, plan, **facts), journal)
        (command, _) = journal.commands()
        journal.begin("env", "another print")
        journal.failed("verify", "why")
        partial = make_receipt(prepared(tmp_path, replace(plan, steps=plan.steps[:-1])), journal)
    created = receipt.pop("created")
    assert created[4] == "-" and created[10] == "T" and created[19] in "+-"  # noqa: PT018
    layout = Layout(tmp_path)
    assert receipt == {
        "schema": "xpubuild.receipt/1", "xpubuild": __version__, "status": "complete", "recipe": "mine",
        "lock_digest": "digest", "summary": {"target": "cpu"}, "host": {"os": "x"},
        "oneapi": [{"name": "compiler", "path": "/o"}], "activation": {"oneapi": {"set": {"A": "b"}}},
        "resolved": {"torch": {"ref": "main", "commit": "c", "url": "u", "when": "w"}},
        "workspace": str(tmp_path),
        "python": f"{tmp_path}/env/bin/python", "logs": f"{tmp_path}/logs",
        "steps": [
            {"id": name, "title": f"title of {name}", "status": "done", "fingerprint": f"print of {name}",
             "store": "/a store" if name == "ops.wheel" else None, "evidence": EVIDENCE[name]}
            for name in STEPS
        ],
        "commands": [
            {"step": "ops.wheel", "argv": ["make"], "started": command["started"], "duration_s": 2.0,
             "user_s": 1.235, "system_s": 0.988, "max_rss_bytes": 5, "peak_bytes": 7, "returncode": 0,
             "log": "/a log"},
        ],
        "wheels": [
            {"file": "ops-1.whl", "path": f"{tmp_path}/wheels/ops-1.whl", "wheel": "ops-1.whl",
             "status": "ok", "sha256": "a"},
            {"file": "vision-1.whl", "path": f"{tmp_path}/wheels/vision-1.whl", "wheel": "vision-1.whl"},
        ],
        "published": [],
        "warnings": [{"step": "ops.wheel", "id": "a-warning", "text": "text", "lines": ["one", "two"]}],
        "compile_cache": [],
        "prebuilt": [
            {"step": "torch", "name": "torch", "version": "2", "sha256": "b"},
            {"step": "torch", "name": "sympy", "version": "1", "sha256": None},
            {"step": "torch", "name": "numpy", "version": "3", "sha256": None},
        ],
        "verify": {
            "status": "fail", "torch": {"version": "2"}, "device": {}, "passed": 2, "failed": 1, "skipped": 1,
            "crashed": 1, "timed_out": 1, "report": str(layout.verify_report),
            "checks": [{"id": check["id"], "status": check["status"], "duration_s": 1.5}
                       for check in REPORT["checks"]],  # type: ignore[index]
        },
    }  # fmt: skip
    assert (partial["status"], partial["verify"], partial["oneapi"]) == ("partial", None, [])
    assert partial["activation"] == {"oneapi": None}
    first = partial["steps"][0]
    assert (first["status"], first["store"], first["evidence"]) == ("to-do", None, [])
    write_json(layout.receipt, {"b": 1, "a": 2})
    assert layout.receipt.read_text() == '{\n "a": 2,\n "b": 1\n}\n'


@pytest.mark.parametrize("damage", ["no report", "no JSON", "not done"])
def test_without_a_report_a_receipt_says_nothing_of_verify(tmp_path: Path, damage: str) -> None:
    plan, journal = world(tmp_path, STEPS if damage != "not done" else STEPS[:-2])
    report = Layout(tmp_path).verify_report
    report.unlink()
    if damage == "no JSON":
        report.write_text("{")
    with journal:
        receipt = make_receipt(prepared(tmp_path, plan), journal)
    assert receipt["verify"] is None
    assert receipt["status"] == ("partial" if damage == "not done" else "complete")
    assert [item["file"] for item in receipt["wheels"]][1:] == (
        [] if damage == "not done" else ["vision-1.whl"]
    )


@pytest.mark.parametrize(
    "document",
    [[], {"activation": None}, {"summary": 1}, {"verify": "pass"}, {"wheels": 3}, {"prebuilt": ["torch"]}],
)
def test_a_receipt_of_another_shape_is_refused_by_name(tmp_path: Path, document: object) -> None:
    (tmp_path / "receipt.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match="is damaged") as caught:
        read_receipt(tmp_path)
    assert str(tmp_path / "receipt.json") in caught.value.what

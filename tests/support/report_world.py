"""Workspaces for tests of ``xpubuild status --html``: real runs of small plans, with real ninja."""

from __future__ import annotations

import json
from pathlib import Path

from support.engine import FileProof, Recorder, make_plan, shell
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Plan, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import run_plan
from xpubuild.engine.state import plan_states
from xpubuild.supply.caching import logs_of
from xpubuild.verify.model import CheckResult, VerifyReport
from xpubuild.verify.suite.database_table import Table
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.status import plan_document

#: What a page must show as text: in titles, names of files, arguments, logs.
HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;{{7*7}}</title><script>alert(2)</script>"
SECRET = "hunter2hunter2"
_NINJA = """rule make
  command = sleep $seconds && touch $out
build one.cpp.o: make
  seconds = 0.4
build <b>two.cpp.o: make
  seconds = 0.2
build three.cpp.o: make
  seconds = 0.1
build lib.so lib.so.1: make | one.cpp.o <b>two.cpp.o three.cpp.o
  seconds = 0.1
"""
#: Two calls of a compiler, as ccache logs them.
_CALLS = r"# a.cpp\ndirect_cache_hit\n# <b>b.cpp\ncache_miss\n"
_LOG = (
    "echo 'src/a.cpp:1:10: fatal error: %s: No such file or directory'; echo 'compilation terminated.';"
    f" echo 'https://me:{SECRET}@host.invalid/x'; exit 1"
)


def _steps(root: Path, *, fails: bool) -> tuple[Step, ...]:
    layout = Layout(root)
    folder, ready = layout.build / "lib", layout.build / "ready"
    logs = logs_of("lib", layout.build)
    made = shell(f"printf ok > '{ready}'")
    built = shell(f"ninja -j2 -C '{folder}' && sleep 2.5 && printf '{_CALLS}' > '{logs[0][1]}'")
    installed = shell(_LOG % HOSTILE.replace("'", "") if fails else "true", env={"A": HOSTILE})
    return (
        Step("env", "make an environment", commands=(made,), proofs=(FileProof(str(ready), "ok"),)),
        Step("lib.wheel", f"build lib {HOSTILE}", needs=("env",), commands=(built,)),
        Step("lib.install", "install lib", needs=("lib.wheel",), commands=(installed,)),
        Step("verify", "verify", needs=("lib.install",), commands=(shell("true"),)),
    )


def run(root: Path, *, fails: bool) -> Plan:
    """Run the plan in a folder and leave there what an install leaves."""
    layout = Layout(root)
    plan = make_plan(root, *_steps(root, fails=fails))
    (layout.build / "lib").mkdir(parents=True, exist_ok=True)
    (layout.build / "lib" / "build.ninja").write_text(_NINJA)
    with Journal(layout.journal) as journal:
        states = plan_states(plan, journal)
        layout.plan.write_text(json.dumps(plan_document(plan, states)))
        journal.start_run("test", ["xpubuild", "install", HOSTILE], "0")
        run_plan(plan, journal, sink=Recorder(), cancel=Cancel())
    return plan


def interrupt(root: Path) -> None:
    """Leave a step and a run that began and did not end, as a kill does."""
    with Journal(Layout(root).journal) as journal:
        journal.start_run("test", ["xpubuild", "install"], "0")
        journal.begin("verify", "other")


def verified(root: Path) -> None:
    """Leave a result of verify, and one of its operator database."""
    layout = Layout(root)
    results = (
        CheckResult("import.torch", "torch can be imported", "import", "pass", 1.5),
        CheckResult("aten.sort", f"sort {HOSTILE}", "aten", "fail", 0.2, detail=HOSTILE, warnings=("slow",)),
        CheckResult("device.count", "devices", "device", "skip", detail="no device"),
    )
    report = VerifyReport("smoke", "/env/bin/python", results, device={"type": "cpu", "name": HOSTILE})
    layout.verify_report.write_text(json.dumps(report.to_json()))
    facts = {"device": "a CPU", "type": "cpu", "driver": "", "torch": "2.13.0"}
    table = Table([(name, kind) for name in ("add", "sort") for kind in ("float32", "int64")], facts)
    table.add({"operator": "add", "type": "float32", "state": "passed"})
    table.add({"operator": "sort", "type": "int64", "state": "failed", "detail": HOSTILE})
    layout.verify_operators.mkdir(parents=True)
    (layout.verify_operators / "operators.json").write_text(json.dumps(table.document()))


def make(root: Path, *, fails: bool) -> Path:
    root.mkdir(parents=True)
    run(root, fails=fails)
    verified(root)
    return root

"""Plans of real shell commands: order, side by side, what a failure or a stop leaves undone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from integration.engine_plans import go, statuses, step
from support.engine import (
    MARK,
    Recorder,
    eventually,
    lines_of,
    make_plan,
    marked,
    new_mark,
    nothing_left,
    shell,
)

from xpubuild.engine.events import (
    RunFinished,
    RunStarted,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
)
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Step
from xpubuild.engine.process import Cancel
from xpubuild.errors import BuildError, InterruptedByUserError

#: Also after errors.
pytestmark = pytest.mark.usefixtures("nothing_stays_open")


def test_steps_run_in_order_and_are_told_and_journalled(workspace: Path) -> None:
    sink = Recorder()
    note = workspace / "note"
    plan = make_plan(
        workspace,
        step("a", f"echo a >> '{note}'; echo '[1/2] one'; echo '[2/2] two' >&2"),
        step("b", f"echo b >> '{note}'", needs="a"),
        step("c", f"echo c >> '{note}'", needs="ab"),
    )
    outcome = go(plan, sink)
    assert (outcome.ran, outcome.up_to_date, outcome.errors) == (["a", "b", "c"], [], [])
    assert lines_of(note) == ["a", "b", "c"]
    assert statuses(workspace) == {"a": "done", "b": "done", "c": "done"}
    assert isinstance(sink.events[0], RunStarted)
    assert sink.events[0].steps == (("a", "step a"), ("b", "step b"), ("c", "step c"))
    assert isinstance(sink.events[-1], RunFinished)
    assert sink.events[-1].status == "ok"
    assert [(e.step, e.reason) for e in sink.of(StepStarted)] == [(n, "not run here before") for n in "abc"]
    assert [(e.step, e.status) for e in sink.of(StepFinished)] == [(name, "done") for name in "abc"]
    assert [e.line for e in sink.of(StepOutput)] == ["[1/2] one", "[2/2] two"]
    assert [(e.done, e.total) for e in sink.of(StepProgress)][-1] == (2, 2)
    log = lines_of(workspace / "logs" / "a.log")
    assert log[0].startswith("$ sh -c ")
    assert log[-2:] == ["[1/2] one", "[2/2] two"]
    with Journal(workspace / "journal.db", read_only=True) as journal:
        assert [(c["step"], c["returncode"]) for c in journal.commands()] == [("a", 0), ("b", 0), ("c", 0)]
        assert all(c["max_rss_bytes"] > 0 and c["duration_s"] > 0 for c in journal.commands())
        assert journal.runs()[0]["status"] == "ok"


def test_independent_steps_overlap(workspace: Path) -> None:
    """Each waits for the other to have begun: one after the other they would pass the deadline."""
    meet = "touch '{0}/{1}'; while [ ! -e '{0}/{2}' ]; do sleep 0.02; done"
    plan = make_plan(
        workspace,
        *(
            Step(id=me, title=me, commands=(shell(meet.format(workspace, me, other), deadline_s=30),))
            for me, other in (("left", "right"), ("right", "left"))
        ),
    )
    assert sorted(go(plan).ran) == ["left", "right"]


@pytest.mark.parametrize("width", [2])
def test_no_more_steps_than_the_width_run_at_once(width: int, workspace: Path) -> None:
    count = "ls '{0}/running' | wc -l >> '{0}/seen'"
    text = f"touch '{{0}}/running/{{1}}'; {count}; sleep 0.15; {count}; rm '{{0}}/running/{{1}}'"
    (workspace / "running").mkdir()
    plan = make_plan(workspace, *(step(name, text.format(workspace, name)) for name in "abcdef"))
    assert len(go(plan, width=width).ran) == 6
    assert max(map(int, lines_of(workspace / "seen"))) == width


def test_after_a_failure_nothing_starts_and_what_runs_is_finished(workspace: Path) -> None:
    sink = Recorder()
    begun = f"while [ ! -e '{workspace}/slow began' ]; do sleep 0.02; done"
    plan = make_plan(
        workspace,
        step("bad", f"{begun}; echo 'x.cpp:1: error: no' ; exit 3"),
        step("slow", f"touch '{workspace}/slow began'; sleep 0.8; touch '{workspace}/slow'"),
        step("waiting", f"touch '{workspace}/waiting'"),
        step("after bad", f"touch '{workspace}/after bad'", needs=["bad"]),
        step("after slow", f"touch '{workspace}/after slow'", needs=["slow"]),
    )
    outcome = go(plan, sink, width=2)
    assert outcome.ran == ["slow"]
    (error,) = outcome.errors
    assert type(error) is BuildError
    assert error.why == "'sh' exited with code 3: x.cpp:1: error: no"
    assert error.log == workspace / "logs" / "bad.log"
    assert (workspace / "slow").exists()
    assert not any((workspace / name).exists() for name in ("waiting", "after bad", "after slow"))
    assert statuses(workspace) == {"bad": "failed", "slow": "done"}
    finished = {event.step: event for event in sink.of(StepFinished)}
    assert (finished["bad"].status, finished["bad"].detail) == ("failed", "step bad failed")
    assert sink.events[-1].status == "failed"  # type: ignore[attr-defined]


def test_a_cancelled_run_stops_everything(workspace: Path) -> None:
    cancel, sink, mark = Cancel(), Recorder(), new_mark()
    commands = (shell("setsid sleep 300 & sleep 300", env={MARK: mark}), shell(f"touch '{workspace}/second'"))
    plan = make_plan(
        workspace,
        Step(id="a", title="a", commands=commands),
        Step(id="b", title="b", commands=commands[:1]),
        step("c", f"touch '{workspace}/c'", needs=["a"]),
        step("d", f"touch '{workspace}/d'"),
    )

    def stop() -> None:
        eventually(lambda: len(marked(mark)) >= 6)
        cancel.set("SIGINT")

    thread = threading.Thread(target=stop)
    thread.start()
    with nothing_left(mark):
        outcome = go(plan, sink, cancel=cancel, width=2)
    thread.join()
    assert outcome.ran == []
    assert all(isinstance(error, InterruptedByUserError) for error in outcome.errors)
    assert not any((workspace / name).exists() for name in ("second", "c", "d"))
    assert {event.step: event.status for event in sink.of(StepFinished)} == {
        "a": "cancelled",
        "b": "cancelled",
    }
    assert sink.events[-1].status == "cancelled"  # type: ignore[attr-defined]
    assert statuses(workspace) == {"a": "running", "b": "running"}


# ---- Signals to a running plan, and the end of the login that it was started from


#: Runs a plan of one long step under the signal handlers of the command line.
INTERRUPTED = """
import sys
from pathlib import Path
from support.engine import Recorder, make_plan, shell
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import cancel_on_signals, run_plan

workspace, text = Path(sys.argv[1]), sys.argv[2]
cancel = Cancel()
sink = Recorder()
sink.emit = lambda event: print(getattr(event, "line", ""), end="\\n", flush=True)
with cancel_on_signals(cancel), Journal(workspace / "journal.db") as journal:
    journal.start_run("r", [], "1")
    plan = make_plan(workspace, Step(id="a", title="a", commands=(shell(text),)))
    outcome = run_plan(plan, journal, sink=sink, cancel=cancel)
print("reason", cancel.reason, [type(error).__name__ for error in outcome.errors], flush=True)
"""


def interrupted(workspace: Path, text: str, mark: str, *wrap: str) -> subprocess.Popen[str]:
    tests = str(Path(__file__).resolve().parent.parent)
    return subprocess.Popen(
        [*wrap, sys.executable, "-c", INTERRUPTED, str(workspace), text],
        env={**os.environ, "PYTHONPATH": tests, MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    while True:
        line = process.stdout.readline()
        assert line, "ended before it was ready"
        if line == "ready\n":
            return


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_a_run_in_order(number: signal.Signals, workspace: Path) -> None:
    mark = new_mark()
    with nothing_left(mark):
        process = interrupted(workspace, "setsid sleep 300 & echo ready; sleep 300", mark)
        wait_for_ready(process)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=60)
    assert out.splitlines()[-1] == f"reason {number.name} ['InterruptedByUserError']"
    assert err == ""
    assert process.returncode == 0
    with Journal(workspace / "journal.db", read_only=True) as journal:
        assert [run["status"] for run in journal.runs()] == ["cancelled"]
        # Neither done nor failed: plan and status call it interrupted.
        assert [record.status for record in journal.records()] == ["running"]


def test_a_second_signal_ends_at_once_and_leaves_nothing(workspace: Path) -> None:
    mark = new_mark()
    with nothing_left(mark, within_s=3.0):
        process = interrupted(workspace, "trap '' INT TERM; echo ready; while :; do sleep 0.1; done", mark)
        wait_for_ready(process)
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        started = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        assert time.monotonic() - started < 3.0


def test_a_run_under_nohup_survives_the_end_of_the_login(workspace: Path) -> None:
    mark = new_mark()
    with nothing_left(mark):
        process = interrupted(workspace, "echo ready; sleep 0.5; echo finished", mark, "nohup")
        wait_for_ready(process)
        os.kill(process.pid, signal.SIGHUP)
        out, _ = process.communicate(timeout=60)
    assert "finished\n" in out
    assert out.splitlines()[-1] == "reason  []"

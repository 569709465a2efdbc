"""Signals to a running plan, and the end of the login that it was started from."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.engine import MARK, new_mark, nothing_left

from xpubuild.engine.journal import Journal

#: Also after errors.
pytestmark = pytest.mark.usefixtures("nothing_stays_open")


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

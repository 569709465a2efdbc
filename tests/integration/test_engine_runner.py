"""Plans of real shell commands: order, side by side, what a failure or a stop leaves undone."""

from __future__ import annotations

import threading
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

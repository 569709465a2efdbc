"""Plans of real shell commands: order, side by side, failures, publishing, what a command gets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.engine import (
    MARK,
    FileProof,
    Recorder,
    eventually,
    lines_of,
    make_plan,
    marked,
    new_mark,
    nothing_left,
    nothing_open,
    shell,
    small_disk,
)

from xpubuild.engine.events import (
    Event,
    RunFinished,
    RunStarted,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
)
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import WorkspaceLock
from xpubuild.engine.model import XPUBUILD, Command, Plan, Publish, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import Outcome, run_plan
from xpubuild.errors import (
    BuildError,
    FetchError,
    InterruptedByUserError,
    NoSpaceError,
    NoXpuError,
    OutOfMemoryError,
    ToolchainError,
    XpuBuildError,
)


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """In every test here, also after errors, neither a descriptor nor a child stays."""
    with nothing_open():
        yield


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "w\u00f6rk space"
    folder.mkdir()
    return folder


def go(plan: Plan, sink: Recorder | None = None, **options: Any) -> Outcome:
    with Journal(Path(plan.workspace) / "journal.db") as journal:
        journal.start_run(plan.recipe, ["test"], "0")
        options.setdefault("cancel", Cancel())
        return run_plan(plan, journal, sink=sink or Recorder(), **options)


def statuses(workspace: Path) -> dict[str, str]:
    with Journal(workspace / "journal.db", read_only=True) as journal:
        return {record.step: record.status for record in journal.records()}


def step(identifier: str, text: str = "true", *, needs: Sequence[str] = (), **options: Any) -> Step:
    return Step(
        id=identifier, title=f"step {identifier}", needs=tuple(needs), commands=(shell(text),), **options
    )


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


@pytest.mark.parametrize("width", [1, 2])
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
    assert error.why == "'sh' ended with status 3: x.cpp:1: error: no"
    assert error.log == workspace / "logs" / "bad.log"
    assert (workspace / "slow").exists()
    assert not any((workspace / name).exists() for name in ("waiting", "after bad", "after slow"))
    assert statuses(workspace) == {"bad": "failed", "slow": "done"}
    finished = {event.step: event for event in sink.of(StepFinished)}
    assert (finished["bad"].status, finished["bad"].detail) == ("failed", "step bad failed")
    assert sink.events[-1].status == "failed"  # type: ignore[attr-defined]


def test_two_failures_are_both_kept(workspace: Path) -> None:
    gate = "touch '{0}/{1}'; while [ ! -e '{0}/{2}' ]; do sleep 0.02; done; exit 1"
    plan = make_plan(
        workspace,
        step("a", gate.format(workspace, "a", "b")),
        step("b", gate.format(workspace, "b", "a")),
    )
    assert sorted(error.what for error in go(plan).errors) == ["step a failed", "step b failed"]


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
    assert statuses(workspace) == {"a": "failed", "b": "failed"}


def test_cancelled_before_the_first_step(workspace: Path) -> None:
    (workspace / "old").mkdir()
    cancel = Cancel()
    cancel.set("SIGTERM")
    outcome = go(make_plan(workspace, step("a", fresh=(str(workspace / "old"),))), cancel=cancel)
    assert [type(error) for error in outcome.errors] == [InterruptedByUserError]
    assert (workspace / "old").exists()
    assert statuses(workspace) == {}


def test_until_runs_a_step_and_what_it_needs(workspace: Path) -> None:
    plan = make_plan(workspace, step("a"), step("b", needs="a"), step("c", needs="b"), step("x"))
    assert go(plan, until="b").ran == ["a", "b"]
    with pytest.raises(KeyError):
        go(plan, until="nothing")


def test_alternatives_are_tried_in_order(workspace: Path) -> None:
    note = workspace / "note"
    tries = tuple(
        ("sh", "-c", f"echo {name} >> '{note}'; {end}")
        for name, end in (("one", "exit 1"), ("two", "exit 2"), ("three", "true"), ("four", "true"))
    )
    plan = make_plan(
        workspace, Step(id="a", title="a", commands=(Command(tries[0], alternatives=tries[1:]),))
    )
    assert go(plan).ran == ["a"]
    assert lines_of(note) == ["one", "two", "three"]
    log = (workspace / "logs" / "a.log").read_text()
    assert log.count("$ sh -c") == 3


def test_of_alternatives_that_all_fail_the_last_is_told(workspace: Path) -> None:
    command = shell("exit 1", alternatives=(("sh", "-c", "echo error: second; exit 2"),))
    (error,) = go(make_plan(workspace, Step(id="a", title="a", commands=(command,)))).errors
    assert error.why == "'sh' ended with status 2: error: second"


def test_after_a_deadline_no_alternative_is_tried(workspace: Path) -> None:
    command = shell("sleep 60", deadline_s=0.5, alternatives=(("touch", str(workspace / "second")),))
    (error,) = go(make_plan(workspace, Step(id="a", title="a", commands=(command,)))).errors
    assert type(error) is BuildError
    assert "deadline" in error.why
    assert not (workspace / "second").exists()


def build_wheel(workspace: Path, name: str, **options: Any) -> Step:
    stage, wheels = workspace / "wheels" / ".stage-a", workspace / "wheels"
    return Step(
        id="wheel",
        title="wheel",
        commands=(shell(f"echo {name} > '{stage}/{name}.whl'; touch '{stage}/other.txt'", **options),),
        outputs=(str(wheels),),
        fresh=(str(stage),),
        publish=Publish(str(stage), str(wheels), "*.whl"),
    )


def wheels(workspace: Path) -> list[str]:
    return sorted(path.name for path in (workspace / "wheels").iterdir())


def test_publishing_replaces_what_the_step_published_before(workspace: Path) -> None:
    assert go(make_plan(workspace, build_wheel(workspace, "a-1"))).ran == ["wheel"]
    assert wheels(workspace) == ["a-1.whl"]
    (workspace / "wheels" / "users.whl").write_text("of the user")
    assert go(make_plan(workspace, build_wheel(workspace, "a-2"))).ran == ["wheel"]
    assert wheels(workspace) == ["a-2.whl", "users.whl"]
    assert go(make_plan(workspace, build_wheel(workspace, "a-2"))).up_to_date == ["wheel"]


def test_a_published_file_that_is_lost_is_made_again(workspace: Path) -> None:
    plan = make_plan(workspace, build_wheel(workspace, "a-1"))
    go(plan)
    (workspace / "wheels" / "a-1.whl").unlink()
    assert go(plan).ran == ["wheel"]
    assert wheels(workspace) == ["a-1.whl"]


def test_what_a_killed_run_staged_or_published_does_not_stay(workspace: Path) -> None:
    """Killed after it had moved one wheel, with another still in the stage; the next run makes neither."""
    stage = workspace / "wheels" / ".stage-a"
    plan = make_plan(workspace, build_wheel(workspace, "a-3"))
    stage.mkdir(parents=True)
    with Journal(workspace / "journal.db") as journal:
        journal.begin("wheel", "0" * 64)
        journal.add_made("wheel", [str(workspace / "wheels"), str(workspace / "wheels" / "a-1.whl")])
    (workspace / "wheels" / "a-1.whl").write_text("moved by the killed run")
    (stage / "a-2.whl").write_text("left in the stage")
    assert go(plan).ran == ["wheel"]
    assert wheels(workspace) == ["a-3.whl"]


def test_a_stage_is_empty_even_where_the_plan_forgot_to_say_so(workspace: Path) -> None:
    stage = workspace / "stage"
    stage.mkdir()
    (stage / "old.whl").write_text("x")
    plan = make_plan(
        workspace,
        Step(
            id="wheel",
            title="wheel",
            commands=(shell(f"touch '{stage}/new.whl'"),),
            publish=Publish(str(stage), str(workspace / "wheels")),
        ),
    )
    assert go(plan).ran == ["wheel"]
    assert wheels(workspace) == ["new.whl"]


def test_a_proof_that_fails_is_a_failure_with_the_log(workspace: Path) -> None:
    target = workspace / "out"
    proof = FileProof(str(target), "right\n")
    plan = make_plan(
        workspace, step("a", f"echo wrong > '{target}'; echo built", proofs=(proof,)), step("b", needs="a")
    )
    outcome = go(plan)
    assert outcome.ran == []
    (error,) = outcome.errors
    assert error.what == "out is wrong"
    assert error.log == workspace / "logs" / "a.log"
    assert "built" in error.log.read_text()
    assert statuses(workspace) == {"a": "failed"}
    assert [type(error) for error in go(plan).errors] == [BuildError], "not done, so it runs again"


def test_evidence_of_proofs_is_kept(workspace: Path) -> None:
    target = workspace / "out"
    plan = make_plan(workspace, step("a", f"echo x > '{target}'", proofs=(FileProof(str(target), "x\n"),)))
    go(plan)
    with Journal(workspace / "journal.db", read_only=True) as journal:
        record = journal.record("a")
    assert record is not None
    assert record.evidence == [{"proof": "out has the right content", "bytes": 2}]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("kill -KILL $$", OutOfMemoryError),
        ("sh -c 'kill -KILL $$'", OutOfMemoryError),
        ("sh -c 'kill -KILL $$'; echo after; exit 1", OutOfMemoryError),
        ("cat /dev/zero > /dev/full", NoSpaceError),
        ("echo 'g++: fatal error: Killed signal terminated program cc1plus'; exit 1", OutOfMemoryError),
        ("exit 9", BuildError),
        ("kill -SEGV $$", BuildError),
    ],
)
def test_a_failure_is_classified(text: str, kind: type[XpuBuildError], workspace: Path) -> None:
    (error,) = go(make_plan(workspace, step("a", text))).errors
    assert type(error) is kind
    assert error.log == workspace / "logs" / "a.log"


def test_the_step_explains_its_own_tool(workspace: Path) -> None:
    def explain(lines: Sequence[str]) -> XpuBuildError | None:
        return NoXpuError("XPU is off") if any("USE_XPU : OFF" in line for line in lines) else None

    (error,) = go(make_plan(workspace, step("a", "echo '--  USE_XPU : OFF'; exit 1", explain=explain))).errors
    assert isinstance(error, NoXpuError)


def test_a_child_xpubuild_speaks_for_itself(workspace: Path) -> None:
    plan = make_plan(
        workspace,
        Step(id="a", title="a", commands=(Command((XPUBUILD, "recipes", "show", "no-such-recipe")),)),
    )
    (error,) = go(plan).errors
    assert error.exit_code == 20
    assert "no-such-recipe" in error.what
    assert error.log == workspace / "logs" / "a.log"
    assert not list((workspace / "logs").glob("*.json"))


def test_the_error_of_one_command_is_not_taken_for_that_of_the_next(workspace: Path) -> None:
    document = json.dumps(FetchError("no network").to_json())
    leave = f"printf '%s' '{document}' > \"$XPUBUILD_ERROR_FILE\"; exit 1"
    first = shell(leave, alternatives=(("sh", "-c", "exit 4"),))
    (error,) = go(make_plan(workspace, Step(id="a", title="a", commands=(first,)))).errors
    assert type(error) is BuildError
    (error,) = go(make_plan(workspace, Step(id="b", title="b", commands=(shell(leave),)))).errors
    assert isinstance(error, FetchError)
    assert error.what == "no network"


def test_a_missing_program_is_a_failed_step(workspace: Path) -> None:
    outcome = go(make_plan(workspace, Step(id="a", title="a", commands=(Command(("no-such-tool",)),))))
    assert [type(error) for error in outcome.errors] == [ToolchainError]
    assert statuses(workspace) == {"a": "failed"}


def test_a_command_gets_what_the_plan_says_and_nothing_of_the_callers(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CFLAGS", "-march=native")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/callers")
    monkeypatch.setenv("HOME", "/a home")
    tools = workspace / "t\u00f6ols"
    tools.mkdir()
    (tools / "show").write_text('#!/bin/sh\nenv -0 > "$1"\npwd > "$1.pwd"\n')
    (tools / "show").chmod(0o755)
    out = workspace / "out put"
    command = Command(
        ("show", str(out)), env={"CC": "gcc \u00fc"}, tuning={"MAX_JOBS": "2"}, path_prefix=(str(tools),)
    )
    assert go(make_plan(workspace, Step(id="a", title="a", commands=(command,)))).ran == ["a"]
    env = dict(entry.split("=", 1) for entry in out.read_text().split("\0") if entry)
    assert env["CC"] == "gcc \u00fc"
    assert env["MAX_JOBS"] == "2"
    assert env["HOME"] == "/a home"
    assert env["PATH"].startswith(f"{tools}:")
    assert not {"CFLAGS", "LD_LIBRARY_PATH"} & env.keys()
    assert lines_of(Path(f"{out}.pwd")) == [str(workspace)]


def test_a_module_in_the_callers_folder_is_not_imported(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m` puts the current folder first; people start installs in folders full of scripts."""
    monkeypatch.chdir(tmp_path)
    for name in ("click.py", "json.py", "types.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the caller')\n")
    plan = make_plan(
        workspace,
        Step(
            id="a",
            title="a",
            commands=(Command((XPUBUILD, "--version")), Command((sys.executable, "-m", "pip", "--version"))),
        ),
    )
    outcome = go(plan)
    assert outcome.ran == ["a"], (workspace / "logs" / "a.log").read_text()


def test_the_folder_of_a_command(workspace: Path, tmp_path: Path) -> None:
    plan = make_plan(
        workspace, Step(id="a", title="a", commands=(Command(("sh", "-c", "pwd > pwd"), cwd=str(tmp_path)),))
    )
    go(plan)
    assert lines_of(tmp_path / "pwd") == [str(tmp_path)]


def test_secrets_reach_neither_log_nor_journal_nor_events(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_callers_secret")
    sink = Recorder()
    command = Command(
        ("sh", "-c", 'echo "$PLAN_TOKEN" ghp_callers_secret $0; exit 1', "https://me:url-secret@host/x"),
        env={"PLAN_TOKEN": "plan-secret-123"},
    )
    outcome = go(make_plan(workspace, Step(id="a", title="a", commands=(command,))), sink)
    everything = [
        (workspace / "logs" / "a.log").read_text(),
        *(json.dumps(event.to_json()) for event in sink.events),
        *(json.dumps(error.to_json()) for error in outcome.errors),
        (workspace / "journal.db").read_bytes().decode("latin-1"),
    ]
    for secret in ("ghp_callers_secret", "url-secret", "plan-secret-123"):
        assert not [text for text in everything if secret in text]
    assert "**** **** https://****@host/x" in everything[0]


def test_commands_hold_the_lock(workspace: Path) -> None:
    with WorkspaceLock(workspace, command="test") as lock:
        plan = make_plan(workspace, step("a", "ls -l /proc/self/fd | grep -c '/\\.lock$'"))
        outcome = go(plan, lock_fd=lock.fd)
    assert outcome.ran == ["a"], "grep found nothing"


def test_the_log_of_the_last_time_is_kept(workspace: Path) -> None:
    for turn in ("one", "two", "three"):
        go(make_plan(workspace, step("a", f"echo {turn}")))
    assert lines_of(workspace / "logs" / "a.log")[-1] == "three"
    assert lines_of(workspace / "logs" / "a.log.1")[-1] == "two"


def test_somebody_elses_folder_is_in_the_way_and_stays(workspace: Path) -> None:
    env = workspace / "env"
    env.mkdir()
    (env / "thesis.txt").write_text("years")
    plan = make_plan(workspace, step("a", f"mkdir '{env}'", outputs=(str(env),), fresh=(str(env),)))
    (error,) = go(plan).errors
    assert isinstance(error, ToolchainError)
    assert "in the way" in error.what
    assert (env / "thesis.txt").read_text() == "years"
    env.rename(workspace / "elsewhere")
    assert go(plan).ran == ["a"]
    plan = make_plan(workspace, step("a", f"mkdir '{env}'; true", outputs=(str(env),), fresh=(str(env),)))
    assert go(plan).ran == ["a"], "what was made here may be replaced"


def test_a_damaged_journal_does_not_make_our_own_work_foreign(workspace: Path) -> None:
    env = workspace / "env"
    make = step("a", f"mkdir '{env}'", outputs=(str(env),), fresh=(str(env),))
    plan = make_plan(workspace, make)
    assert go(plan).ran == ["a"]
    (workspace / "journal.db").write_text("no database at all")
    assert go(plan).ran == ["a"]
    assert go(plan).up_to_date == ["a"]


class BugError(Exception):
    pass


@dataclass
class BuggyProof:
    def describe(self) -> str:
        return "a bug"

    def key(self) -> dict[str, Any]:
        return {"proof": "bug"}

    def check(self) -> dict[str, Any]:
        raise BugError("in a proof")


class BuggySink(Recorder):
    def emit(self, event: Event) -> None:
        super().emit(event)
        if isinstance(event, StepOutput) and event.step == "bug":
            raise BugError("in a sink")


@pytest.mark.parametrize(
    ("proofs", "make_sink"), [((BuggyProof(),), Recorder), ((), BuggySink)], ids=["proof", "sink"]
)
def test_a_bug_surfaces_at_once_and_ends_the_other_steps(
    proofs: tuple[BuggyProof, ...], make_sink: Callable[[], Recorder], workspace: Path
) -> None:
    mark = new_mark()
    begun = f"while [ ! -e '{workspace}/began' ]; do sleep 0.02; done; echo x"
    plan = make_plan(
        workspace,
        step("bug", begun, proofs=proofs),
        Step(
            id="long",
            title="long",
            commands=(shell(f"touch '{workspace}/began'; sleep 300", env={MARK: mark}),),
        ),
        step("after", f"touch '{workspace}/after'", needs=["long"]),
    )
    started = time.monotonic()
    with nothing_left(mark), pytest.raises(BugError):
        go(plan, make_sink())
    assert time.monotonic() - started < 60
    assert not (workspace / "after").exists()
    with Journal(workspace / "journal.db", read_only=True) as journal:
        assert journal.runs()[-1]["status"] == "failed"
    fixed = make_plan(workspace, step("bug", begun), step("after"))
    assert sorted(go(fixed).ran) == ["after", "bug"]


@pytest.mark.needs("mount")
def test_a_full_disk_keeps_what_is_done_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with small_disk(tmp_path / "sm\u00e4ll disk", "2m") as workspace:
        note = tmp_path / "note"
        plan = make_plan(
            workspace,
            step("a", f"echo a >> '{note}'; echo x > '{workspace}/a'", witnesses=(str(workspace / "a"),)),
            step("b", f"echo b >> '{note}'; head -c 1000000 /dev/zero > '{workspace}/b'", needs="a"),
        )
        ballast = workspace / "ballast"
        ballast.write_bytes(b"x" * 1_200_000)
        outcome = go(plan)
        assert outcome.ran == ["a"]
        # The journal may have had no room either; the first error is that of the step.
        assert {type(error) for error in outcome.errors} == {NoSpaceError}
        assert outcome.errors[0].log == workspace / "logs" / "b.log"
        ballast.unlink()
        outcome = go(plan)
        assert (outcome.ran, outcome.up_to_date, outcome.errors) == (["b"], ["a"], [])
        assert lines_of(note) == ["a", "b", "b"]


@pytest.mark.needs("mount")
def test_a_disk_filled_by_a_log_is_told_as_such(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as workspace:
        mark = new_mark()
        plan = make_plan(
            workspace,
            Step(id="a", title="a", commands=(shell("yes a long line of output", env={MARK: mark}),)),
        )
        with nothing_left(mark):
            outcome = go(plan)
        assert isinstance(outcome.errors[0], NoSpaceError)
        (workspace / "logs" / "a.log").unlink()
        assert go(make_plan(workspace, step("a", "echo short"))).ran == ["a"]


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

"""The commands of a step: what each gets, what is tried instead, where its output goes."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from integration.engine_plans import go, statuses, step
from support.engine import (
    MARK,
    FileProof,
    Recorder,
    lines_of,
    make_plan,
    new_mark,
    nothing_left,
    shell,
)

from xpubuild.engine.events import Event, Notice, StepOutput
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import workspace_lock
from xpubuild.engine.model import XPUBUILD, Command, Publish, Step
from xpubuild.errors import (
    BuildError,
    FetchError,
    ToolchainError,
)

#: Also after errors.
pytestmark = pytest.mark.usefixtures("nothing_stays_open")


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
    with workspace_lock(workspace, command="test") as lock:
        plan = make_plan(workspace, step("a", "ls -l /proc/self/fd | grep -c '/\\.lock$'"))
        outcome = go(plan, lock_fd=lock)
    assert outcome.ran == ["a"], "grep found nothing"


def test_a_shortcut_is_all_that_runs_where_it_works(workspace: Path) -> None:
    command = shell("echo usual >> note", shortcut=("sh", "-c", "echo quick >> note"))
    assert go(make_plan(workspace, Step(id="a", title="a", commands=(command,)))).ran == ["a"]
    assert lines_of(workspace / "note") == ["quick"]


def test_where_a_shortcut_fails_the_usual_command_runs_and_the_user_is_told(workspace: Path) -> None:
    recorder = Recorder()
    command = shell("echo usual >> note; exit 3", shortcut=("sh", "-c", "echo quick >> note; exit 1"))
    command = replace(command, alternatives=(("sh", "-c", "echo other >> note"),))
    plan = make_plan(workspace, Step(id="a", title="a", commands=(command,)))
    assert go(plan, sink=recorder).ran == ["a"]
    assert lines_of(workspace / "note") == ["quick", "usual", "other"]
    (told,) = [event for event in recorder.events if isinstance(event, Notice)]
    assert "the usual one is taken" in told.text
    assert told.step == "a"


# ---- What a step makes: moved from its stage when it is whole, and never in place of somebody else's


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


def test_somebody_elses_folder_is_in_the_way_and_stays(workspace: Path) -> None:
    env = workspace / "env"
    env.mkdir()
    (env / "thesis.txt").write_text("years")
    plan = make_plan(workspace, step("a", f"mkdir '{env}'", outputs=(str(env),), fresh=(str(env),)))
    (error,) = go(plan).errors
    assert isinstance(error, ToolchainError)
    assert "was not created by xpubuild" in error.what
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


# ---- How a step fails: proofs, classes of errors, bugs, full disks


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

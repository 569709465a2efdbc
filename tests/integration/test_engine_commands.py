"""The commands of a step: what each gets, what is tried instead, where its output goes."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from integration.engine_plans import go, step
from support.engine import Recorder, lines_of, make_plan, shell

from xpubuild.engine.events import Notice
from xpubuild.engine.lock import workspace_lock
from xpubuild.engine.model import XPUBUILD, Command, Step

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

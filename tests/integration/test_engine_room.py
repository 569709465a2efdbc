"""Temporary files of commands: removed with them, and a full folder for them is what the error says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from integration.engine_plans import go, step
from support.engine import make_plan, shell

from xpubuild.engine.failure import by_space, full_place, own_temporary
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import held_by, workspace_lock
from xpubuild.engine.model import Plan, Step
from xpubuild.errors import AuditError, BuildError, NoSpaceError
from xpubuild.ui.console import show
from xpubuild.ui.views import status_view
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.status import plan_document, standing, status_document


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "w"
    folder.mkdir()
    return folder


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder with a short name, as that for temporary files has."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


@pytest.mark.parametrize("end", ["exit 0", "exit 3", "kill -KILL $$"])
def test_what_a_command_leaves_among_temporary_files_goes_with_it(
    end: str, workspace: Path, temporary: Path
) -> None:
    text = f'mkdir "$TMPDIR/pip-unpack-x"; echo x > "$TMPDIR/cc1.s"; {end}'
    go(make_plan(workspace, step("a", text)))
    assert list(temporary.iterdir()) == []


def test_a_folder_with_a_long_name_is_used_as_it_is(tmp_path: Path) -> None:
    """Sockets in it would have no name: they have 108 bytes."""
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    with own_temporary({"TMPDIR": str(folder)}) as env:
        assert env["TMPDIR"] == str(folder)
    with own_temporary({"TMPDIR": "/nonexistent"}) as env:
        assert Path(env["TMPDIR"]).is_dir()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "f"
    folder.mkdir()
    mount, umount = (shutil.which(name) or name for name in ("mount", "umount"))
    subprocess.run([mount, "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], check=True)
    try:
        (folder / "x").write_bytes(bytes(200 << 10))
        yield folder
    finally:
        subprocess.run([umount, str(folder)], check=True)


@pytest.mark.needs("mount")
@pytest.mark.parametrize(
    "said",
    ["connection broken by NewConnectionError", "cannot create temp file for here-document", "pip failed"],
)
def test_a_failure_for_lack_of_room_for_temporary_files_says_so(
    said: str, workspace: Path, full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(full))
    (error,) = go(make_plan(workspace, step("a", f"echo '{said}'; exit 1"))).errors
    assert type(error) is NoSpaceError
    assert str(full) in error.what
    assert said in error.why
    assert full_place([workspace, full]) == full


def test_room_is_no_excuse_for_other_failures(tmp_path: Path) -> None:
    assert full_place([tmp_path, "/nonexistent", "/proc"]) is None
    error = AuditError("x")
    assert by_space(error, Path("/")) is error
    failed = BuildError("x")
    assert by_space(failed, None) is failed


# ---- What a plan says of a workspace that somebody is at work in: a step runs now, or was left in the
# middle


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    steps = (Step("one", "one", commands=(shell("true"),)), Step("two", "two", commands=(shell("true"),)))
    return make_plan(tmp_path, *steps)


@contextmanager
def at_work(plan: Plan, step: str, command: str = "xpubuild install test") -> Iterator[None]:
    """Hold the workspace as an install does that is inside a step."""
    root = Path(plan.workspace)
    with workspace_lock(root, command=command), Journal(root / "journal.db") as journal:
        journal.begin(step, plan.fingerprints[step])
        yield


def test_a_step_that_runs_now_is_told_with_the_process_that_runs_it(plan: Plan) -> None:
    with at_work(plan, "one"):
        shown, states = standing(plan)
        document = plan_document(shown, states)
    assert states["one"].reason.startswith(f"is running now, by process {os.getpid()} on ")
    assert "xpubuild install test" in states["one"].reason
    assert states["two"].reason == "not run here before"
    assert document["steps"][0]["state"] == "to-do"
    assert document["steps"][0]["reason"] == states["one"].reason
    assert str(os.getpid()) in document["summary"]["in_use"]


def test_what_is_left_after_its_process_ended_was_interrupted(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    with at_work(plan, "one"):
        pass
    shown, states = standing(plan)
    assert states["one"].reason == "was interrupted"
    assert "in_use" not in shown.summary
    root = Path(plan.workspace)
    with Journal(root / "journal.db", read_only=True) as journal:
        show(status_view(status_document(str(root), journal, held_by(root))))
    assert "interrupted" in capsys.readouterr().out


def test_another_process_that_came_later_does_not_run_what_was_interrupted(plan: Plan) -> None:
    with at_work(plan, "one"):
        pass
    root = Path(plan.workspace)
    with workspace_lock(root, command="xpubuild clean"):
        note = json.loads((root / ".lock.owner").read_text())
        later = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(time.time() + 60))
        (root / ".lock.owner").write_text(json.dumps({**note, "since": later}))
        shown, states = standing(plan)
    assert states["one"].reason == "was interrupted"
    assert "xpubuild clean" in shown.summary["in_use"]


def test_what_changed_since_the_last_install_is_named(tmp_path: Path) -> None:
    def plan_of(python: str) -> Plan:
        env = Step("env", f"create environment with Python {python}", commands=(shell(f"echo {python}"),))
        return make_plan(tmp_path, env, Step("two", "two", needs=("env",), commands=(shell("true"),)))

    before, after = plan_of("3.11"), plan_of("3.12")
    root = Path(before.workspace)
    with Journal(root / "journal.db") as journal:
        for step in before.steps:
            journal.begin(step.id, before.fingerprints[step.id])
            journal.done(step.id, evidence=[], witnesses={}, published=[])
        _, states = standing(after)
        assert {state.reason for state in states.values()} == {"its inputs changed"}
        layout = Layout(root)
        layout.build.mkdir()
        layout.plan.write_text(json.dumps(plan_document(before, states)))
    _, states = standing(after)
    assert states["env"].reason == "its inputs changed; before: create environment with Python 3.11"
    assert states["two"].reason == "its inputs changed: env"
    layout.plan.write_text("[")
    assert standing(after)[1]["two"].reason == "its inputs changed"

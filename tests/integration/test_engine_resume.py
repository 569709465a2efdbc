"""What runs again and what does not; and SIGKILL of a run at any moment, then the same command."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
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

from xpubuild.engine.events import StepFinished, StepStarted
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Plan, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import Outcome, run_plan
from xpubuild.engine.state import plan_states
from xpubuild.errors import BuildError

#: Also after errors.
pytestmark = pytest.mark.usefixtures("nothing_stays_open")


def go(plan: Plan, sink: Recorder | None = None) -> Outcome:
    with Journal(Path(plan.workspace) / "journal.db") as journal:
        journal.start_run(plan.recipe, ["test"], "0")
        return run_plan(plan, journal, sink=sink or Recorder(), cancel=Cancel())


def states(plan: Plan) -> dict[str, str]:
    path = Path(plan.workspace) / "journal.db"
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(Journal(path, read_only=True)) if path.exists() else None
        found = plan_states(plan, journal)
    return {name: "done" if state.done else "to-do" for name, state in found.items()}


def counted(
    workspace: Path, name: str, needs: Sequence[str] = (), text: str = "true", **options: Any
) -> Step:
    """Return a step that makes the file NAME and notes each time it ran."""
    target = workspace / name
    line = f"echo x >> '{target}.ran'; echo made > '{target}'; {text}"
    options.setdefault("witnesses", (str(target),))
    return Step(id=name, title=name, needs=tuple(needs), commands=(shell(line),), **options)


def ran(workspace: Path) -> dict[str, int]:
    return {path.stem: len(lines_of(path)) for path in sorted(workspace.glob("*.ran"))}


def test_what_an_upstream_build_would_not_look_at_again_is_removed_where_inputs_changed(
    workspace: Path,
) -> None:
    kept, use = workspace / "CMakeCache.txt", "test -e CMakeCache.txt || echo $SWITCH > CMakeCache.txt"
    for switch, ends, left in (("1", "exit 1", "1"), ("1", "exit 1", "1"), ("0", "true", "0")):
        one = counted(workspace, "a", text=f"SWITCH={switch}; {use}; {ends}", stale=(str(kept),))
        go(make_plan(workspace, one))
        assert kept.read_text().strip() == left


def test_the_second_run_does_nothing(workspace: Path) -> None:
    plan = make_plan(workspace, counted(workspace, "a"), counted(workspace, "b", "a"))
    assert states(plan) == {"a": "to-do", "b": "to-do"}
    go(plan)
    assert states(plan) == {"a": "done", "b": "done"}
    sink = Recorder()
    outcome = go(plan, sink)
    assert (outcome.ran, outcome.up_to_date) == ([], ["a", "b"])
    assert ran(workspace) == {"a": 1, "b": 1}
    assert not sink.of(StepStarted)
    assert [event.status for event in sink.of(StepFinished)] == ["up-to-date"] * 2


def test_after_a_failure_only_what_is_needed_runs(workspace: Path) -> None:
    plan = make_plan(
        workspace,
        counted(workspace, "a"),
        counted(workspace, "b", "a", text=f"test -e '{workspace}/mended'"),
        counted(workspace, "c", "a"),
        counted(workspace, "d", "bc"),
    )
    assert [type(error) for error in go(plan).errors] == [BuildError]
    (workspace / "mended").touch()
    sink = Recorder()
    outcome = go(plan, sink)
    assert "a" in outcome.up_to_date
    assert outcome.ran[-1] == "d"
    assert ran(workspace) == {"a": 1, "b": 2, "c": 1, "d": 1}
    assert {event.step: event.reason for event in sink.of(StepStarted)}["b"] == "failed the last time"


def test_a_lost_witness_makes_the_step_run_again(workspace: Path) -> None:
    plan = make_plan(workspace, counted(workspace, "a"), counted(workspace, "b", "a"))
    go(plan)
    (workspace / "a").unlink()
    assert states(plan) == {"a": "to-do", "b": "done"}
    sink = Recorder()
    outcome = go(plan, sink)
    assert (outcome.ran, outcome.up_to_date) == (["a"], ["b"])
    (started,) = sink.of(StepStarted)
    assert str(workspace / "a") in started.reason


def test_a_touched_file_that_is_the_same_is_proved_and_not_built(workspace: Path) -> None:
    proof = FileProof(str(workspace / "a"), "made\n")
    plan = make_plan(workspace, counted(workspace, "a", proofs=(proof,)))
    go(plan)
    os.utime(workspace / "a", (1, 1))
    assert states(plan) == {"a": "to-do"}
    checked = len(proof.checked)
    assert go(plan).up_to_date == ["a"]
    assert len(proof.checked) == checked + 1
    assert go(plan).up_to_date == ["a"]
    assert len(proof.checked) == checked + 1, "the new times were not taken"
    assert ran(workspace) == {"a": 1}


def test_another_fingerprint_reaches_the_dependants_only(workspace: Path) -> None:
    def plan(pin: str) -> Plan:
        return make_plan(
            workspace,
            counted(workspace, "a"),
            counted(workspace, "b", "a", relevant={"pin": pin}),
            counted(workspace, "c", "b"),
            counted(workspace, "d", "a"),
        )

    go(plan("one"))
    assert states(plan("two")) == {"a": "done", "b": "to-do", "c": "to-do", "d": "done"}
    assert sorted(go(plan("two")).ran) == ["b", "c"]
    assert ran(workspace) == {"a": 1, "b": 2, "c": 2, "d": 1}
    assert sorted(go(plan("one")).ran) == ["b", "c"], "one fingerprint is kept, the last"


def test_a_guard_of_the_users_edits_is_heard_on_every_run(workspace: Path) -> None:
    proof = FileProof(str(workspace / "a"), "made\n")
    guarded = counted(workspace, "a", proofs=(proof,), witnesses=(), always_prove=True)
    plan = make_plan(workspace, guarded, counted(workspace, "b", "a"))
    go(plan)
    checked = len(proof.checked)
    assert go(plan).errors == []
    assert len(proof.checked) == checked + 1
    (workspace / "a").write_text("the user's edit\n")
    sink = Recorder()
    outcome = go(plan, sink)
    assert [error.what for error in outcome.errors] == ["a is wrong"]
    assert [(event.step, event.status) for event in sink.of(StepFinished)] == [("a", "failed")]
    assert lines_of(workspace / "a") == ["the user's edit"]
    assert ran(workspace) == {"a": 1, "b": 1}
    (workspace / "a").write_text("made\n")
    assert go(plan).up_to_date == ["a", "b"]


def test_a_guard_is_not_heard_again_while_nothing_was_touched(workspace: Path) -> None:
    proof, marks = FileProof(str(workspace / "a"), "made\n"), [1]
    guarded = counted(
        workspace, "a", proofs=(proof,), witnesses=(), always_prove=True,
        guard_stamp=lambda: marks[0] or None,
    )  # fmt: skip
    plan = make_plan(workspace, guarded)

    def heard() -> int:
        before = len(proof.checked)
        assert go(plan).up_to_date == ["a"]
        return len(proof.checked) - before

    go(plan)
    # What was made may have been edited before its stamp was taken, so the first look is the proof's.
    assert [heard(), heard()] == [1, 0]
    marks[0] = 2
    assert states(plan) == {"a": "done"}
    assert [heard(), heard()] == [1, 0]
    # Where files can change without showing it, there is no stamp.
    marks[0] = 0
    assert [heard(), heard()] == [1, 1]
    (workspace / "a").write_text("the user's edit\n")
    marks[0] = 3
    assert [error.what for error in go(plan).errors] == ["a is wrong"]
    assert [error.what for error in go(plan).errors] == ["a is wrong"]


def test_a_proof_that_a_lock_adds_is_heard_where_nothing_was_touched(workspace: Path) -> None:
    """Also in a workspace that was made without the lock; what is installed stays watched after it."""
    proof, marks = FileProof(str(workspace / "a"), "made\n"), [1]
    refused = FileProof(str(workspace / "a"), "another\n")
    step = counted(workspace, "a", proofs=(proof,), witnesses=(), outputs_stamp=lambda: marks[0])
    locked = replace(step, proofs=(proof, refused), always_prove=True, guard_stamp=None)
    guarded = counted(workspace, "b", proofs=(proof,), witnesses=(), always_prove=True, guard_stamp=lambda: 1)
    go(make_plan(workspace, step, guarded))
    go(make_plan(workspace, step, guarded))
    for other in (locked, replace(guarded, proofs=(proof, refused), guard_stamp=None)):
        outcome = go(make_plan(workspace, other))
        assert [error.what for error in outcome.errors] == ["a is wrong"]
        assert refused.checked
        refused.checked.clear()
    (workspace / "journal.db").unlink()
    fine = replace(locked, proofs=(proof,))
    go(make_plan(workspace, fine))
    marks[0] = 2
    assert states(make_plan(workspace, step)) == {"a": "to-do"}
    assert states(make_plan(workspace, fine)) == {"a": "to-do"}


def test_a_step_that_was_interrupted_runs_again(workspace: Path) -> None:
    plan = make_plan(workspace, counted(workspace, "a"))
    go(plan)
    with Journal(workspace / "journal.db") as journal:
        journal.begin("a", plan.fingerprints["a"])
    sink = Recorder()
    assert go(plan, sink).ran == ["a"]
    assert [event.reason for event in sink.of(StepStarted)] == ["was interrupted"]


#: One install: takes the lock, runs a plan whose steps write their files in two halves, ends with 0 or 1. A
#: tree is unpacked, three files are compiled from it side by side, two are linked and published, and these
#: are installed over what is there.
INSTALL = """
import sys
from pathlib import Path
from support.engine import FileProof, MARK, Recorder, make_plan, shell
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import workspace_lock
from xpubuild.engine.model import Publish, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import run_plan

w, mark = Path(sys.argv[1]), sys.argv[2]
stage = w / "wheels" / ".stage"
half = "{ printf first; sleep 0.02; printf ' second'; }"

def step(name, text, needs=(), **more):
    command = shell(f"set -e; cd '{w}'; (setsid sleep 60 &); {text}", env={MARK: mark})
    return Step(id=name, title=name, needs=tuple(needs), commands=(command,), **more)

compiled = [
    step(
        f"compile{n}", f"{half} > build{n}.o; cat src/file{n} >> build{n}.o", ["source"],
        outputs=(str(w / f"build{n}.o"),), witnesses=(str(w / f"build{n}.o"),),
        proofs=(FileProof(str(w / f"build{n}.o"), f"first secondsource{n}\\n"),),
    )
    for n in range(3)
]
plan = make_plan(
    w,
    step(
        "source", "mkdir src; for n in 0 1 2; do echo source$n > src/file$n; sleep 0.01; done",
        outputs=(str(w / "src"),), fresh=(str(w / "src"),), witnesses=(str(w / "src" / "file2"),),
    ),
    *compiled,
    step(
        "wheel", f"cat build?.o > '{stage}/one.whl'; sleep 0.02; {half} > '{stage}/two.whl'",
        [item.id for item in compiled], outputs=(str(w / "wheels"),), fresh=(str(stage),),
        publish=Publish(str(stage), str(w / "wheels"), "*.whl"),
    ),
    step(
        "install",
        "rm -rf env/new; mkdir -p env/new; cp wheels/*.whl env/new; rm -rf env/site; mv env/new env/site",
        ["wheel"], outputs=(str(w / "env"),), witnesses=(str(w / "env" / "site" / "one.whl"),),
    ),
)
print("ready", flush=True)
with workspace_lock(w, command="install", patience_s=30) as lock, Journal(w / "journal.db") as journal:
    if journal.set_aside:
        sys.exit("the journal was damaged")
    journal.start_run("r", [], "1")
    outcome = run_plan(plan, journal, sink=Recorder(), cancel=Cancel(), lock_fd=lock)
for error in outcome.errors:
    print(error.to_json(), file=sys.stderr)
sys.exit(1 if outcome.errors else 0)
"""


def install(workspace: Path, mark: str) -> subprocess.Popen[str]:
    workspace.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", INSTALL, str(workspace), mark],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent), MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def tree(workspace: Path) -> dict[str, str]:
    """Return what an install is for: every file but the journal, the logs and the lock."""
    return {
        str(path.relative_to(workspace)): path.read_text("utf-8")
        for path in sorted(workspace.rglob("*"))
        if path.is_file() and path.relative_to(workspace).parts[0] in ("src", "wheels", "env")
    } | {path.name: path.read_text("utf-8") for path in sorted(workspace.glob("build?.o"))}


def test_killed_at_any_moment_and_run_again(tmp_path: Path, thorough: bool) -> None:
    mark = new_mark()
    with nothing_left(mark):
        whole = install(tmp_path / "reference", mark)
        _, err = whole.communicate(timeout=120)
    assert (whole.returncode, err) == (0, "")
    wanted = tree(tmp_path / "reference")
    assert wanted["env/site/one.whl"] == "".join(f"first secondsource{n}\n" for n in range(3))
    assert len(wanted) == 10

    source = random.Random(20261121)  # noqa: S311 - moments, not secrets
    workspace = tmp_path / "k\u00eflled often"
    kills = finished = 0
    while kills < (25 if thorough else 8):
        process = install(workspace, mark)
        time.sleep(source.uniform(0, 0.6))
        if process.poll() is None:
            kills += 1
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            # The next may start while commands of the killed one still die: the lock keeps them apart.
            if kills % 2:
                continue
        else:
            _, err = process.communicate()
            assert (process.returncode, err) == (0, "")
            assert tree(workspace) == wanted
            finished += 1
            shutil.rmtree(workspace)
    with nothing_left(mark):
        last = install(workspace, mark)
        _, err = last.communicate(timeout=120)
        assert (last.returncode, err) == (0, "")
    assert tree(workspace) == wanted
    with nothing_left(mark):
        again = install(workspace, mark)
        again.communicate(timeout=120)
    with Journal(workspace / "journal.db", read_only=True) as journal:
        assert [record.status for record in journal.records()] == ["done"] * 6
        assert journal.runs()[-1]["status"] == "ok"
        last_run = journal.runs()[-1]["id"]
        assert not [command for command in journal.commands() if command["run"] == last_run]


def test_two_at_once_do_the_work_once(tmp_path: Path) -> None:
    mark = new_mark()
    with nothing_left(mark):
        both = [install(tmp_path / "workspace", mark) for _ in range(2)]
        for process in both:
            _, err = process.communicate(timeout=120)
            assert (process.returncode, err) == (0, "")
    with Journal(tmp_path / "workspace" / "journal.db", read_only=True) as journal:
        assert len(journal.commands()) == 6

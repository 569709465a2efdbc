"""What earlier builds took, read from the journals of real runs, and shown by ``plan``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.documents import check
from support.engine import Recorder, make_plan, shell

from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Command, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import run_plan
from xpubuild.install.estimate import last_time
from xpubuild.workspace.layout import Layout


def run(root: Path, *steps: Step) -> None:
    plan = make_plan(root, *steps)
    with Journal(Layout(root).journal) as journal:
        journal.start_run("line", ["xpubuild", "install"], "0")
        run_plan(plan, journal, sink=Recorder(), cancel=Cancel())


def build(root: Path, script: str, status: str) -> Step:
    command = shell(f"{script}; exit {status}")
    tuned = Command(command.argv, tuning={"MAX_JOBS": "3"})
    return Step("lib.wheel", "build", commands=(tuned,), outputs=(str(root / "build" / "lib"),))


def test_a_build_that_ended_well_is_the_last_time_with_the_tries_before(tmp_path: Path) -> None:
    run(tmp_path, build(tmp_path, "sleep 0.3", "1"))
    assert last_time(tmp_path) == {}
    run(tmp_path, build(tmp_path, "sleep 0.2", "0"))
    assert 0.5 <= last_time(tmp_path)["lib.wheel"] < 5


def test_what_is_no_journal_says_nothing(tmp_path: Path) -> None:
    Layout(tmp_path).journal.write_text("no database")
    assert last_time(tmp_path) == {}
    assert Layout(tmp_path).journal.read_text() == "no database"


def test_plan_tells_what_its_steps_will_take(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "xpubuild", "plan", "quickstart", "--workspace", str(tmp_path / "ws")]
    document = json.loads(
        subprocess.run([*argv, "--json"], capture_output=True, text=True, check=True).stdout
    )
    check(document, "plan")
    guessed = {step["id"]: step["estimate"] for step in document["steps"]}
    assert guessed["torch"]["download_bytes"] > 190_000_000
    assert all(item["source"].startswith("recipe: ") for item in guessed.values())
    whole = document["estimate"]
    assert whole["unknown"] == []
    assert max(item["seconds"] for item in guessed.values()) < whole["seconds"]
    assert whole["seconds"] <= sum(item["seconds"] for item in guessed.values()) + 1e-6
    table = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "What the steps to do will take, about" in table
    together = next(line for line in table.splitlines() if line.startswith("together"))
    assert "MB" in together
    assert "min" in together

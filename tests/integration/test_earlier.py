"""What earlier builds took, read from the journals of real runs, and shown by ``plan``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
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


def test_a_build_that_ended_well_is_the_last_time(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    (root / "build" / "lib").mkdir(parents=True)
    run(root, build(root, "true", "1"))
    assert last_time(root) == {}
    run(root, build(root, f"sleep 0.3; head -c 300000 /dev/zero > '{root}/build/lib/x'", "0"))
    found = last_time(root)["lib.wheel"]
    assert found.seconds is not None
    assert found.seconds >= 0.3
    assert (found.disk_bytes or 0) >= 300_000
    assert found.source == "last time, in ws"


def test_downloads_are_counted_once_each(tmp_path: Path) -> None:
    counts = "".join(f"echo Progress {done} of {size};" for size in (500, 70) for done in (0, 10, size, size))
    run(tmp_path, Step("torch", "download", commands=(shell(counts),)))
    assert last_time(tmp_path)["torch"].download_bytes == 570


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


@pytest.mark.parametrize(
    "text", ["[]", '{"tuning": {"MAX_JOBS": 1}, "downloaded_bytes": 1, "disk_bytes": 1}']
)
def test_a_damaged_journal_tells_nothing(tmp_path: Path, text: str) -> None:
    run(tmp_path, Step("torch", "download", commands=(shell("echo Progress 5 of 5"),)))
    with Journal(Layout(tmp_path).journal) as journal:
        journal._db.execute("UPDATE entries SET data=? WHERE kind='amount'", (text,))
    assert last_time(tmp_path) == {}

"""A workspace that was moved or copied: refused before anything in it or in the old place is touched."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from integration.gitserver import Upstream
from support.cli import Xpubuild
from support.documents import check
from support.engine import Recorder, make_plan, shell

from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Command, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import run_plan
from xpubuild.install.estimate import last_time
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.moved import place_of

RECIPE = """
schema: 1
name: moving
title: one small source
target: cpu
needs: {{disk_gib: 0.01}}
components:
  top: {{kind: source, dist: top, source: {{url: "{url}", commit: {commit}}}}}
"""


@pytest.fixture
def recipe(tmp_path: Path, xpubuild: Xpubuild, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe that was installed in ``ws`` as far as its source."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    top = Upstream.make(tmp_path / "top.git")
    commit = top.commit({"setup.py": "from setuptools import setup\nsetup(name='top')\n"})
    file = tmp_path / "moving.yaml"
    file.write_text(RECIPE.format(url=top.path.as_uri(), commit=commit))
    words = ("install", str(file), "--workspace", str(tmp_path / "ws"), "--until", "top.source")
    xpubuild.ok(*words)
    return str(file)


def test_it_is_refused_and_goes_on_where_it_is_moved_back(
    tmp_path: Path, xpubuild: Xpubuild, recipe: str
) -> None:
    old, new = tmp_path / "ws", tmp_path / "ws 2"
    old.rename(new)
    for words in (("install", recipe, "--workspace", str(new)), ("clean", "--workspace", str(new), "--yes")):
        refused = xpubuild(*words)
        assert refused.status == 2
        assert f"made in {old}" in " ".join(refused.err.split())
        assert f"mv '{new}' {old}" in refused.err
    assert (new / "src" / "top" / "setup.py").is_file()
    assert f"made in {old}" in xpubuild.json("plan", recipe, "--workspace", str(new))["summary"]["moved"]
    new.rename(old)
    plan = xpubuild.json("plan", recipe, "--workspace", str(old))
    assert {step["id"]: step["state"] for step in plan["steps"]}["top.source"] == "done"


def test_a_copy_is_refused_and_the_workspace_it_was_copied_from_is_left_alone(
    tmp_path: Path, xpubuild: Xpubuild, recipe: str
) -> None:
    old, new = tmp_path / "ws", tmp_path / "ws2"
    shutil.copytree(old, new, symlinks=True)
    for words in (("clean", "--yes"), ("check",), ("check", "--repair")):
        assert xpubuild(words[0], "--workspace", str(new), *words[1:]).status == 2
    assert (old / "src" / "top" / "setup.py").is_file()
    for command in ("env", "status"):
        assert f"made in {old}" in " ".join(xpubuild(command, "--workspace", str(new)).err.split())


def test_another_name_of_the_same_folder_is_no_other_place(
    tmp_path: Path, xpubuild: Xpubuild, recipe: str
) -> None:
    old, link = tmp_path / "ws", tmp_path / "link"
    link.symlink_to(old)
    assert (place_of(link), place_of(old), place_of(tmp_path / "none")) == (old, old, tmp_path / "none")
    assert xpubuild.json("plan", recipe, "--workspace", str(link))["workspace"] == str(old)


# ---- What earlier builds took, read from the journals of real runs, and shown by ``plan``


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

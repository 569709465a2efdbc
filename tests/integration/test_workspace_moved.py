"""A workspace that was moved or copied: said plainly, built again, nothing of the old place is touched."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.gitserver import Upstream
from support.cli import Xpubuild
from support.engine import Recorder, make_plan, shell

from xpubuild.cli.workspace import workspace_of
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Plan, Publish, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import run_plan
from xpubuild.workspace.clean import plan_clean
from xpubuild.workspace.moved import place_of, settle_here
from xpubuild.workspace.status import standing

RECIPE = """
schema: 1
name: moving
title: one small source
target: cpu
needs: {{disk_gib: 0.01}}
components:
  top: {{kind: source, dist: top, source: {{url: "{url}", commit: {commit}}}}}
"""


def plan_of(workspace: Path) -> Plan:
    """Return a plan of one step that publishes a file and keeps a build tree."""
    stage, tree = workspace / "wheels/.stage", workspace / "build/top"
    text = f"mkdir -p {shlex.quote(str(tree))} && date +%N > {shlex.quote(str(stage / 'a.whl'))}"
    return make_plan(
        workspace,
        Step(
            "top.wheel", "top",
            commands=(shell(text),),
            outputs=(str(tree),),
            fresh=(str(stage),),
            publish=Publish(str(stage), str(workspace / "wheels"), "*.whl"),
        ),
    )  # fmt: skip


def built(workspace: Path) -> list[str]:
    """Run that plan as install does; return the steps that ran."""
    workspace.mkdir(exist_ok=True)
    with Journal(workspace / "journal.db") as journal:
        settle_here(workspace, journal)
        outcome = run_plan(plan_of(workspace), journal, sink=Recorder(), cancel=Cancel())
    assert not outcome.errors, outcome.errors
    return outcome.ran


def told(workspace: Path) -> tuple[str, str]:
    """Return what a plan says of the workspace, and why its step would run."""
    plan, states = standing(plan_of(workspace))
    return str(plan.summary.get("moved", "")), states["top.wheel"].reason


def test_a_moved_workspace_says_from_where_and_what_follows(tmp_path: Path) -> None:
    old, new = tmp_path / "ws", tmp_path / "ws 2"
    assert built(old) == ["top.wheel"]
    assert told(old) == ("", "")
    old.rename(new)
    summary, reason = told(new)
    assert f"was moved from {old} to {new}" in summary
    assert "everything is rebuilt" in summary
    assert f"mv '{new}' {old}" in summary
    assert reason == f"was made in {old}"
    new.rename(old)
    assert told(old) == ("", "")
    assert built(old) == []


def test_what_was_built_before_the_move_is_built_again_once(tmp_path: Path) -> None:
    old, new = tmp_path / "ws", tmp_path / "ws2"
    built(old)
    (old / "build/top/stale").touch()
    cache = old / "src/top/build/CMakeCache.txt"
    mine = old / "src/top/mine/CMakeCache.txt"
    for path, home in ((cache, old / "src/top"), (mine, tmp_path / "elsewhere")):
        path.parent.mkdir(parents=True)
        path.write_text(f"# CMake\nCMAKE_HOME_DIRECTORY:INTERNAL={home}\n")
    (cache.parent / "CMakeFiles").mkdir()
    # A build in the source tree itself: the user's files lie beside the cache.
    (cache.parent / "main.cpp").write_text("mine")
    old.rename(new)
    cache_now = new / cache.relative_to(old)
    assert built(new) == ["top.wheel"]
    assert not (new / "build/top/stale").exists()
    assert not cache_now.exists()
    assert not cache_now.with_name("CMakeFiles").exists()
    assert (cache_now.parent / "main.cpp").read_text() == "mine"
    assert (new / "src/top/mine/CMakeCache.txt").is_file()
    assert told(new) == ("", "")
    assert built(new) == []


def test_a_step_that_was_not_built_again_yet_still_tells_where_it_was_made(tmp_path: Path) -> None:
    old, new = tmp_path / "ws", tmp_path / "ws2"
    built(old)
    old.rename(new)
    with Journal(new / "journal.db") as journal:
        settle_here(new, journal)
    assert told(new) == ("", f"was made in {old}")


def test_a_copy_leaves_the_workspace_it_was_copied_from_alone(tmp_path: Path) -> None:
    old, new = tmp_path / "ws", tmp_path / "ws2"
    built(old)
    shutil.copytree(old, new)
    assert f"is a copy of {old}" in told(new)[0]
    assert {path.is_relative_to(new) for path in plan_clean(new).paths} == {True}
    before = (old / "wheels/a.whl").read_bytes()
    assert built(new) == ["top.wheel"]
    assert (old / "wheels/a.whl").read_bytes() == before
    assert (old / "build/top").is_dir()
    assert (new / "wheels/a.whl").is_file()
    assert built(old) == []


def test_what_links_of_a_copy_lead_to_is_left_alone(tmp_path: Path) -> None:
    old, new, disk = tmp_path / "ws", tmp_path / "ws2", tmp_path / "scratch disk"
    (disk / "build").mkdir(parents=True)
    old.mkdir()
    (old / "build").symlink_to(disk / "build")
    built(old)
    cache = disk / "mine/build/CMakeCache.txt"
    cache.parent.mkdir(parents=True)
    cache.write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={old}/src/mine\n")
    (old / "src").mkdir()
    (old / "src/mine").symlink_to(disk / "mine")
    shutil.copytree(old, new, symlinks=True)
    (old / "build/top/object").touch()
    assert built(new) == ["top.wheel"]
    assert (old / "build/top/object").is_file()
    assert cache.is_file()


def test_another_name_of_the_same_folder_is_no_other_place(tmp_path: Path) -> None:
    old, link = tmp_path / "ws", tmp_path / "link"
    built(old)
    link.symlink_to(old)
    assert (place_of(link), place_of(old), place_of(tmp_path / "none")) == (old, old, tmp_path / "none")
    assert workspace_of(None, link) == old


def test_moved_back_after_an_install_it_is_built_again(tmp_path: Path) -> None:
    old, new = tmp_path / "ws", tmp_path / "ws2"
    built(old)
    old.rename(new)
    assert built(new) == ["top.wheel"]
    new.rename(old)
    assert f"was moved from {new} to {old}" in told(old)[0]
    assert built(old) == ["top.wheel"]
    assert built(old) == []


def test_an_old_place_that_may_not_be_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = tmp_path / "ws", tmp_path / "ws2"
    built(old)
    old.rename(new)
    is_file = Path.is_file

    def refused(path: Path, **options: bool) -> bool:
        if old in path.parents:
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path, **options)

    monkeypatch.setattr(Path, "is_file", refused)
    assert f"was moved from {old} to {new}" in told(new)[0]


@dataclass(frozen=True)
class Moving:
    """A recipe, and a workspace that was moved after an install."""

    recipe: str
    old: Path
    new: Path


@pytest.fixture
def moving(tmp_path: Path, xpubuild: Xpubuild, monkeypatch: pytest.MonkeyPatch) -> Moving:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    top = Upstream.make(tmp_path / "top.git")
    commit = top.commit({"setup.py": "from setuptools import setup\nsetup(name='top')\n"})
    recipe = tmp_path / "moving.yaml"
    recipe.write_text(RECIPE.format(url=top.path.as_uri(), commit=commit))
    old, new = tmp_path / "ws", tmp_path / "ws2"
    for until in ("env", "top.source"):
        xpubuild.ok("install", str(recipe), "--workspace", str(old), "--until", until)
    old.rename(new)
    return Moving(str(recipe), old, new)


def test_under_another_name_of_its_folder_nothing_is_built_again(xpubuild: Xpubuild, moving: Moving) -> None:
    moving.new.rename(moving.old)
    moving.new.symlink_to(moving.old)
    plan = xpubuild.json("plan", moving.recipe, "--workspace", str(moving.new))
    assert plan["workspace"] == str(moving.old)
    states = {step["id"]: step["state"] for step in plan["steps"]}
    assert (states["env"], states["top.source"]) == ("done", "done")
    assert json.loads(xpubuild.ok("status", "--workspace", str(moving.new), "--json").out)


def test_who_enters_or_looks_at_a_copy_is_warned(xpubuild: Xpubuild, moving: Moving) -> None:
    shutil.copytree(moving.new, moving.old, symlinks=True)
    for command in ("env", "status"):
        assert xpubuild.ok(command, "--workspace", str(moving.old)).err == ""
        result = xpubuild.ok(command, "--workspace", str(moving.new))
        assert f"warning: this workspace is a copy of {moving.old}" in result.err


def test_install_warns_and_makes_the_environment_anew(xpubuild: Xpubuild, moving: Moving) -> None:
    words = (moving.recipe, "--workspace", str(moving.new))
    plan = xpubuild.json("plan", *words)
    assert f"moved from {moving.old}" in plan["summary"]["moved"]
    reasons = {step["id"]: step["reason"] for step in plan["steps"]}
    assert reasons["env"] == reasons["top.source"] == f"was made in {moving.old}"
    assert f"moved from {moving.old}" in xpubuild.ok("plan", *words).out.replace("\n", " ")
    result = xpubuild.ok("install", *words, "--until", "env", "--log-format", "jsonl")
    notices = [event for event in map(json.loads, result.err.splitlines()) if event["event"] == "notice"]
    assert any(f"moved from {moving.old}" in event["text"] for event in notices)
    assert str(moving.old) + "/" not in (moving.new / "env/bin/pip").read_text()
    xpubuild.ok("install", *words, "--until", "top.source")
    after = {step["id"]: step["state"] for step in xpubuild.json("plan", *words)["steps"]}
    assert after["env"] == after["top.source"] == "done"

"""A recipe that names a branch: upstream is asked once, and the workspace keeps the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.gitserver import GitServer, Upstream, git_server
from support.cli import Xpubuild
from support.documents import check

PIN = "5" * 40
FILES = {
    "setup.py": "from setuptools import setup\nsetup(name='torch', python_requires='>=3.9')\n",
    "version.txt": "2.16.0a0\n",
    "third_party/xpu.txt": f"{PIN}\n",
}
RECIPE = """
schema: 1
name: mine
title: follows a branch
target: cpu
needs: {{disk_gib: 0.01}}
components:
  torch:
    kind: source
    dist: torch
    source:
      url: {url}
      ref: {ref}
      {more}
      configure_time: [{{url: "https://host/ops.git", pin_file: third_party/xpu.txt}}]
"""


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream.make(tmp_path / "repos" / "torch.git")


@pytest.fixture
def server(upstream: Upstream) -> Iterator[GitServer]:
    with git_server(upstream.path.parent) as world:
        yield world


@pytest.fixture
def xpubuild(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Xpubuild:
    return Xpubuild(capsys, monkeypatch)


@pytest.fixture
def recipe(tmp_path: Path, server: GitServer) -> Path:
    return write(tmp_path, server.url("torch.git"))


def write(folder: Path, url: str, ref: str = "main", more: str = "") -> Path:
    path = folder / "mine.yaml"
    path.write_text(RECIPE.format(url=url, ref=ref, more=more))
    return path


def asked(server: GitServer) -> int:
    return sum("info/refs" in path for path in server.requests)


def install(xpubuild: Xpubuild, recipe: Path, workspace: Path, *more: str) -> dict[str, Any]:
    arguments = ("install", str(recipe), "--workspace", str(workspace), "--until", "torch.source", *more)
    receipt = xpubuild.json(*arguments)
    check(receipt, "receipt")
    return receipt


def test_a_plan_shows_the_commit_and_keeps_nothing(
    xpubuild: Xpubuild, upstream: Upstream, server: GitServer, recipe: Path, tmp_path: Path
) -> None:
    first = upstream.commit(FILES)
    workspace = tmp_path / "ws"
    plan = xpubuild.json("plan", str(recipe), "--workspace", str(workspace))
    check(plan, "plan")
    (line,) = plan["summary"]["resolved"]
    assert line.startswith(f"torch: main is {first} ")
    (step,) = (step for step in plan["steps"] if step["id"] == "torch.source")
    assert first in step["commands"][0]["argv"]
    assert not workspace.exists()
    assert first in xpubuild.ok("plan", str(recipe)).out
    upstream.commit({**FILES, "new": "1\n"}, parent=first)
    again = xpubuild.json("plan", str(recipe), "--workspace", str(workspace))
    assert again["lock_digest"] != plan["lock_digest"]


def test_a_workspace_keeps_its_commit_until_it_is_told_to_look_again(
    xpubuild: Xpubuild, upstream: Upstream, server: GitServer, recipe: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / "ws"
    first = upstream.commit(FILES)
    receipt = install(xpubuild, recipe, workspace)
    entry = receipt["resolved"]["torch"]
    assert (entry["ref"], entry["commit"], entry["url"]) == ("main", first, server.url("torch.git"))
    second = upstream.commit({**FILES, "new": "1\n"}, parent=first)
    before = asked(server)
    kept = install(xpubuild, recipe, workspace)
    assert asked(server) == before
    assert kept["resolved"] == receipt["resolved"]
    assert "torch.source" in kept["up_to_date"]
    assert not (workspace / "src/torch/new").exists()
    moved = install(xpubuild, recipe, workspace, "--update")
    assert moved["resolved"]["torch"]["commit"] == second
    assert (workspace / "src/torch/new").exists()
    assert install(xpubuild, recipe, workspace)["resolved"] == moved["resolved"]


def test_another_ref_is_looked_up_anew(
    xpubuild: Xpubuild, upstream: Upstream, server: GitServer, recipe: Path, tmp_path: Path
) -> None:
    first = upstream.commit(FILES)
    other = upstream.commit({**FILES, "new": "1\n"}, branch="release")
    install(xpubuild, recipe, tmp_path / "ws")
    changed = write(tmp_path, server.url("torch.git"), "release")
    assert install(xpubuild, changed, tmp_path / "ws")["resolved"]["torch"]["commit"] == other
    pinned = write(tmp_path, server.url("torch.git"), "main", f"commit: {first}")
    receipt = install(xpubuild, pinned, tmp_path / "ws")
    assert receipt["resolved"] == {}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"resolved": 1}', '{"resolved": {"torch": {"ref": "main"}}}']
)
def test_a_damaged_note_is_made_anew(
    xpubuild: Xpubuild, upstream: Upstream, recipe: Path, tmp_path: Path, text: str
) -> None:
    first = upstream.commit(FILES)
    workspace = tmp_path / "ws"
    install(xpubuild, recipe, workspace)
    (workspace / "resolved.json").write_text(text)
    assert install(xpubuild, recipe, workspace)["resolved"]["torch"]["commit"] == first
    assert json.loads((workspace / "resolved.json").read_text())["resolved"]["torch"]["commit"] == first


def test_a_commit_in_the_note_that_is_none_is_not_believed(
    xpubuild: Xpubuild, upstream: Upstream, server: GitServer, recipe: Path, tmp_path: Path
) -> None:
    first = upstream.commit(FILES)
    workspace = tmp_path / "ws"
    install(xpubuild, recipe, workspace)
    note = workspace / "resolved.json"
    note.write_text(note.read_text().replace(first, "--upload-pack=evil"))
    assert install(xpubuild, recipe, workspace)["resolved"]["torch"]["commit"] == first


def test_offline_it_says_how_to_pin(
    xpubuild: Xpubuild, upstream: Upstream, server: GitServer, tmp_path: Path
) -> None:
    upstream.commit(FILES)
    missing = write(tmp_path, server.url("torch.git"), "v9")
    result = xpubuild("plan", str(missing), "--workspace", str(tmp_path / "ws"))
    assert result.status == 30
    assert "the commit of torch is unknown" in result.err
    assert "components.torch.source.commit" in result.err
    nowhere = write(tmp_path, "http://127.0.0.1:9/torch.git")
    assert xpubuild("plan", str(nowhere)).status == 30
    # Looking at a recipe asks nobody.
    document = xpubuild.json("recipes", "show", str(nowhere))
    assert document["recipe"]["components"]["torch"]["source"]["commit"] is None


def test_a_tree_that_the_recipe_does_not_describe_stops_the_build(
    xpubuild: Xpubuild, upstream: Upstream, server: GitServer, tmp_path: Path
) -> None:
    upstream.commit(FILES)
    wrong = write(tmp_path, server.url("torch.git"), more="version: 2.15.0a0")
    result = xpubuild(
        "install", str(wrong), "--workspace", str(tmp_path / "ws"), "--until", "torch.source", "--json"
    )
    assert result.status == 20
    why = result.document()["error"]["why"]
    assert "version.txt says 2.16.0a0" in why
    assert "2.15.0a0" in why


def test_clean_removes_the_note(
    xpubuild: Xpubuild, upstream: Upstream, server: GitServer, recipe: Path, tmp_path: Path
) -> None:
    upstream.commit(FILES)
    workspace = tmp_path / "ws"
    install(xpubuild, recipe, workspace)
    assert (workspace / "resolved.json").is_file()
    xpubuild.ok("clean", "--workspace", str(workspace), "--yes")
    assert not workspace.exists()


def test_what_the_shell_says_is_pointed_out(
    xpubuild: Xpubuild, upstream: Upstream, server: GitServer, recipe: Path
) -> None:
    upstream.commit(FILES)
    plan = xpubuild.json("plan", str(recipe), USE_XPU="0", MAX_JOBS="3", ZE_AFFINITY_MASK="1")
    (warning,) = plan["summary"]["warnings"]
    assert warning.endswith(": MAX_JOBS, USE_XPU")
    assert "USE_XPU" in xpubuild.ok("plan", str(recipe), USE_XPU="0").out
    for step in plan["steps"]:
        assert all("USE_XPU" not in command["env"] for command in step["commands"])
    assert xpubuild.json("plan", str(recipe))["summary"]["warnings"] == []

"""A workspace that was moved or copied: refused before anything in it or in the old place is touched."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from integration.gitserver import Upstream
from support.cli import Xpubuild

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

"""What xpubuild 0.1 wrote is read: workspaces and locks of tests/data/v0.1."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.cli import Result, Xpubuild

DATA = Path(__file__).parent.parent / "data" / "v0.1"
#: Recipe -> where 0.1 had its workspace. No machine has a workspace in these places.
PLACES = {"quickstart": "/srv/workspace", "tree": "/srv/tree", "packages": "/srv/packages"}
CONDA = ("--conda-lock", str(DATA / "packages.conda-lock.yml"))


@pytest.fixture(autouse=True)
def only_what_0_1_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the recipes of 0.1, no packages, and no cache of an earlier test."""
    monkeypatch.setenv("XPUBUILD_RECIPES", str(DATA / "recipes"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")


@pytest.fixture(params=PLACES)
def recipe(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def workspace(recipe: str, tmp_path: Path) -> Path:
    return copied(recipe, tmp_path)


def copied(recipe: str, into: Path) -> Path:
    return Path(shutil.copytree(DATA / "workspaces" / recipe, into / "ws"))


def said(name: str) -> dict[str, Any]:
    """Return a document that 0.1 printed."""
    document = json.loads((DATA / f"{name}.json").read_text())
    assert isinstance(document, dict)
    return document


def lacking(old: Any, new: Any, place: str = "") -> list[str]:
    """Return what a document of 0.1 says and a later one does not; the later one may say more."""
    if isinstance(old, dict) and isinstance(new, dict):
        gone = [f"{place}.{name}" for name in old.keys() - new.keys()]
        return gone + [
            text
            for name in old.keys() & new.keys()
            for text in lacking(old[name], new[name], f"{place}.{name}")
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [text for number, (one, other) in pairs for text in lacking(one, other, f"{place}[{number}]")]
    return [] if old == new else [f"{place}: {old!r} is now {new!r}"]


def differing(result: Result) -> list[str]:
    """Return what a command found to differ from a lock; the Python of this machine is not the lock's."""
    if result.status == 0:
        return []
    assert result.status == 21, result.err
    document = result.document()
    found = document if "differences" in document else document["error"]["evidence"]
    return [item["path"] for item in found["differences"] if item["path"] != "options.python.version"]


def test_status_says_what_0_1_said(xpubuild: Xpubuild, recipe: str, workspace: Path) -> None:
    result = xpubuild.ok("status", "--workspace", str(workspace), "--json")
    expected = {**said(f"status/{recipe}"), "workspace": str(workspace)}
    assert lacking(expected, result.document()) == []
    assert f"was moved from {PLACES[recipe]} to {workspace}" in result.err


def test_a_plan_knows_what_was_done(xpubuild: Xpubuild, recipe: str, workspace: Path) -> None:
    # The receipt says which recipe, and for which target.
    plan = xpubuild.json("plan", "--workspace", str(workspace))
    expected = said(f"plan/{recipe}")
    assert (plan["recipe"], plan["lock_digest"]) == (recipe, expected["lock_digest"])
    # The commit of a branch is known, and its repository is not here to be asked.
    told = [text.replace("(asked ", "(looked up ") for text in expected["summary"]["resolved"]]
    assert plan["summary"]["resolved"] == told
    assert f"was moved from {PLACES[recipe]} to {workspace}" in plan["summary"]["moved"]
    reasons = {step["id"]: step["reason"] for step in plan["steps"]}
    done = [step["id"] for step in expected["steps"] if step["state"] == "done"]
    assert done
    assert {reasons[name] for name in done} == {f"was made in {PLACES[recipe]}"}


def test_a_workspace_is_entered(xpubuild: Xpubuild, workspace: Path) -> None:
    values = xpubuild.json("env", "--workspace", str(workspace))["env"]
    assert values["VIRTUAL_ENV"] == str(workspace / "env")


def test_clean_knows_what_was_made(xpubuild: Xpubuild, workspace: Path) -> None:
    """Also paths below the old place: all of a moved workspace goes."""
    made = [str(workspace / "env")] if (workspace / "env").is_dir() else []
    document = xpubuild.json("clean", "--workspace", str(workspace), "--yes")
    assert document["removed"] == made
    assert not workspace.exists()


@pytest.mark.parametrize(("name", "more"), [("quickstart", ()), ("tree", ()), ("packages", CONDA)])
def test_a_lock_is_planned(xpubuild: Xpubuild, tmp_path: Path, name: str, more: tuple[str, ...]) -> None:
    words = ("--workspace", str(tmp_path / "ws"), "--lock-policy", "ignore", "--json")
    result = xpubuild("plan", str(DATA / f"{name}.lock.yaml"), *words, *more)
    assert differing(result) == []

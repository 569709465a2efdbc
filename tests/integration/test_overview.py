"""status --all and clean of many: what there is, what would go, and that nothing else goes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from support.cli import Xpubuild
from support.documents import check

from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import workspace_lock

DAY_S = 86_400


class Home:
    """The default folder of workspaces and the caches of one test."""

    def __init__(self, folder: Path) -> None:
        self.workspaces, self.cache = folder / "data" / "xpubuild", folder / "cache" / "xpubuild"
        (self.cache / "git").mkdir(parents=True)
        (self.cache / "git" / "objects").write_bytes(b"x" * 20_000)
        (self.cache / "of-somebody-else").mkdir()

    def add(self, name: str, *, days: float, finished: bool = True) -> Path:
        root = self.workspaces / name
        (root / "wheels").mkdir(parents=True)
        (root / "build").mkdir()
        (root / "wheels" / "a.whl").write_bytes(b"w" * 50_000)
        os.link(root / "wheels" / "a.whl", root / "build" / "a.whl")
        with Journal(root / "journal.db") as journal:
            journal.start_run(name, ["install", name], "0")
            if finished:
                journal.end_run("ok")
            journal.add_made("torch", [str(root / "wheels"), str(root / "build")])
            moment = time.time() - days * DAY_S
            run = {"started": moment, **({"ended": moment} if finished else {})}
            journal._change("run", "000000001", **run)
        receipt = {
            "recipe": name, "status": "complete", "prebuilt": [],
            "wheels": [{"name": "torch", "version": "2.8.0"}], "verify": {"status": "pass"},
        }  # fmt: skip
        (root / "receipt.json").write_text(json.dumps(receipt))
        (root / "build" / "verify.json").write_text("{}")
        return root


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Home(tmp_path)


def test_all_workspaces_and_caches_are_listed(xpubuild: Xpubuild, home: Home) -> None:
    home.add("2.8", days=3)
    home.add("2.10", days=0, finished=False)
    (home.workspaces / "broken").mkdir()
    (home.workspaces / "broken" / "journal.db").write_text("no database")
    document = check(xpubuild.json("status", "--all"), "overview")
    rows = {row["name"]: row for row in document["workspaces"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "2.8": "complete", "2.10": "interrupted", "broken": "unknown",
    }  # fmt: skip
    assert rows["2.8"]["torch"] == "2.8.0"
    # The wheel has two names and is counted once.
    assert 50_000 <= rows["2.8"]["size_bytes"] < 180_000
    assert abs(time.time() - rows["2.8"]["last_used"] - 3 * DAY_S) < 600
    assert rows["2.8"]["verified"] is not None
    assert {cache["name"] for cache in document["caches"]} == {"git", "of-somebody-else"}
    told = xpubuild.ok("status", "--all").out
    assert "3 days ago" in told
    assert "pass, today" in told
    with workspace_lock(home.workspaces / "2.8", command="test"):
        held = xpubuild.json("status", "--all")["workspaces"]
        assert [row["state"] for row in held if row["name"] == "2.8"] in (["in use"], ["complete"])


def test_nothing_there_is_no_error(xpubuild: Xpubuild, home: Home) -> None:
    assert "There is no workspace." in xpubuild.ok("status", "--all").out


def test_caches_go_and_no_workspace(xpubuild: Xpubuild, home: Home) -> None:
    root = home.add("2.8", days=900)
    assert xpubuild("clean", "--caches").status == 2
    assert (home.cache / "git").exists()
    document = check(xpubuild.json("clean", "--caches", "--yes"), "clean")
    assert document["removed"] == [str(home.cache / "git")]
    assert not (home.cache / "git").exists()
    assert (home.cache / "of-somebody-else").exists()
    assert (root / "wheels" / "a.whl").exists()

"""The shell lines for a script without xpubuild fetch the same tree with plain git and bash."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.gitserver import GIT_ENV, GitServer, Nested, git, git_server, plain_clone, snapshot

from xpubuild.supply.git.pin import Pin, portable_commands


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Nested:
    return Nested.make(tmp_path_factory.mktemp("srv"))


@pytest.fixture
def server(nested: Nested) -> Iterator[GitServer]:
    with git_server(nested.top.path.parent) as running:
        yield running


def _bash(lines: tuple[str, ...], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.sh"
    script.write_text("\n".join(["set -euo pipefail", *lines, "echo done"]) + "\n")
    env = {**GIT_ENV, **variables}
    return subprocess.run(["bash", script], env=env, capture_output=True, text=True, check=False, cwd=folder)


def test_the_tree_is_the_pinned_one_and_a_second_run_changes_nothing(
    nested: Nested, server: GitServer, tmp_path: Path
) -> None:
    into = tmp_path / "it's a place ü"
    tree = git("rev-parse", f"{nested.first}^{{tree}}", cwd=nested.top.path)
    pin = Pin(server.url("top.git"), nested.first, tree=tree)
    lines = portable_commands(pin, str(into))
    done = _bash(lines, tmp_path, GIT_DIR="/elsewhere", GIT_INDEX_FILE="/elsewhere/index")
    assert done.returncode == 0, done.stderr
    assert snapshot(into) == plain_clone(pin.url, nested.first, tmp_path / "plain")
    before = {path: path.stat().st_mtime_ns for path in into.rglob("*") if path.is_file()}
    asked = len(server.requests)
    assert _bash(lines, tmp_path).returncode == 0
    after = {path: path.stat().st_mtime_ns for path in into.rglob("*") if path.is_file()}
    changed = {path.name for path in before if before[path] != after.get(path)}
    assert changed <= {"index", "config"}
    assert len(server.requests) == asked


def test_it_is_shallow_where_the_server_allows_it_and_whole_where_not(
    nested: Nested, server: GitServer, tmp_path: Path
) -> None:
    pin = Pin(server.url("top.git"), nested.first)
    for old in (False, True):
        server.faults.old_protocol = old
        into = tmp_path / f"old {old}"
        done = _bash(portable_commands(pin, str(into)), tmp_path)
        assert done.returncode == 0, done.stderr
        assert (into / "third_party/mid/deps/inner/inner.h").read_text() == "inner 1\n"
        assert (into / ".git" / "shallow").exists() is not old


@pytest.mark.parametrize("wrong", ["tree", "edit in a submodule"])
def test_anything_but_the_pin_stops_the_script(
    nested: Nested, server: GitServer, tmp_path: Path, wrong: str
) -> None:
    url = server.url("top.git")
    if wrong == "tree":
        lines = portable_commands(Pin(url, nested.first, tree="a" * 40), "out")
    else:
        lines = portable_commands(Pin(url, nested.first), "out")
        assert _bash(lines, tmp_path).returncode == 0
        (tmp_path / "out/third_party/mid/mid.c").write_text("mine\n")
    done = _bash(lines, tmp_path)
    assert done.returncode != 0
    assert "done" not in done.stdout
    if wrong != "tree":
        assert (tmp_path / "out/third_party/mid/mid.c").read_text() == "mine\n"


def test_the_lines_follow_to_a_new_pin(nested: Nested, server: GitServer, tmp_path: Path) -> None:
    for commit in (nested.first, nested.second):
        done = _bash(portable_commands(Pin(server.url("top.git"), commit), "out"), tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/third_party/mid/deps/other/other.h").read_text() == "other 1\n"

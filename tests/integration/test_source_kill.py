"""SIGKILL at any moment of a checkout; the same call again ends in the same tree.

Moments are chosen twice: just before the n-th thing that the process does (every git call, every rename), and
by the clock, which also hits git in the middle of its own work.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from integration.gitserver import GitServer, Nested, git, git_server, plain_clone, snapshot

from xpubuild.engine.environment import base_environment
from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.git.checkout import checkout
from xpubuild.supply.git.pin import Pin

_CHILD = """
    import itertools, os, pathlib, signal, sys
    from xpubuild.engine.environment import base_environment
    from xpubuild.supply.git.checkout import checkout
    from xpubuild.supply.git.git import Git
    from xpubuild.supply.git.pin import Pin

    url, commit, into, cache, last = sys.argv[1:]
    counter = itertools.count(1)

    def counted(function):
        def call(*args, **options):
            if next(counter) == int(last):
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **options)
        return call

    for owner, name in ((Git, "query"), (Git, "run"), (pathlib.Path, "rename"), (pathlib.Path, "replace")):
        setattr(owner, name, counted(getattr(owner, name)))
    into = pathlib.Path(into)
    print("started", flush=True)
    checkout(Pin(url, commit), into, cache=pathlib.Path(cache), jobs=2, env=base_environment(),
             report=lambda _: None)
    print("steps", next(counter))
"""


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Nested:
    return Nested.make(tmp_path_factory.mktemp("srv"))


@pytest.fixture(scope="module")
def trees(nested: Nested, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    folder = tmp_path_factory.mktemp("plain")
    url = nested.top.path.as_uri()
    return {commit: plain_clone(url, commit, folder / commit) for commit in (nested.first, nested.second)}


@pytest.fixture
def server(nested: Nested) -> Iterator[GitServer]:
    with git_server(nested.top.path.parent) as running:
        yield running


class _Place:
    def __init__(self, folder: Path, server: GitServer) -> None:
        self.into = folder / "ein Ort ü" / "top"
        self.cache = folder / "cache"
        self.url = server.url("top.git")
        self.script = folder / "child.py"
        self.script.write_text(textwrap.dedent(_CHILD))

    def checkout(self, commit: str) -> str:
        pin = Pin(self.url, commit)
        report = checkout(
            pin, self.into, cache=self.cache, jobs=2, env=base_environment(), report=lambda _: None
        )
        return report.action

    def child(self, commit: str, *, last: int = 0) -> subprocess.Popen[str]:
        arguments = [self.url, commit, str(self.into), str(self.cache), str(last)]
        return subprocess.Popen(
            [sys.executable, str(self.script), *arguments], stdout=subprocess.PIPE, text=True
        )

    def kill_at_step(self, commit: str, last: int) -> bool:
        """Return False where the checkout ended before there was a step of that number."""
        child = self.child(commit, last=last)
        child.communicate(timeout=60)
        return child.returncode == -signal.SIGKILL

    def kill_in_a_move(self, commit: str) -> None:
        """Kill one that has noted its move; earlier ones changed nothing."""
        note = self.into / ".git" / "xpubuild-move.json"
        for step in range(30, 100, 2):
            assert self.kill_at_step(commit, step)
            if note.exists():
                return
        pytest.fail("no move was noted")


@pytest.fixture
def place(tmp_path: Path, server: GitServer) -> _Place:
    return _Place(tmp_path, server)


def _no_git_is_left(place: _Place) -> bool:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        words = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
        if not any(str(place.into.parent) in line or str(place.cache) in line for line in words):
            return True
        time.sleep(0.05)
    return False


def _moments(*steps: int) -> list[object]:
    """Every other one always, the others on demand."""
    return [
        pytest.param(step, marks=[pytest.mark.on_demand] * (place % 2)) for place, step in enumerate(steps)
    ]


@pytest.mark.parametrize("step", _moments(2, 11, 27, 35, 44))
def test_a_new_checkout(nested: Nested, place: _Place, trees: dict[str, dict[str, str]], step: int) -> None:
    assert place.kill_at_step(nested.first, step)
    place.checkout(nested.first)
    assert snapshot(place.into) == trees[nested.first]
    assert git("submodule", "status", "--recursive", cwd=place.into).count("\n") == 1
    assert not list(place.into.parent.glob(".top.xpubuild-new"))


@pytest.mark.parametrize("step", _moments(14, 30, 52, 59, 70, 75))
def test_a_move_to_another_pin(
    nested: Nested, place: _Place, trees: dict[str, dict[str, str]], step: int
) -> None:
    place.checkout(nested.first)
    assert place.kill_at_step(nested.second, step)
    place.checkout(nested.second)
    assert snapshot(place.into) == trees[nested.second]
    assert place.checkout(nested.second) == "unchanged"


def test_half_written_files_of_a_killed_git_are_ours_and_anything_else_is_not(
    nested: Nested, place: _Place, trees: dict[str, dict[str, str]]
) -> None:
    place.checkout(nested.first)
    place.kill_in_a_move(nested.second)
    # What git leaves when it dies while it writes: a file's beginning, a file not yet written, a lock.
    half = place.into / "src" / "file 3.c"
    half.write_bytes(_blob(nested, nested.second, "src/file 3.c")[:100])
    (place.into / "grüße.txt").unlink()
    (place.into / "new" / "deep").mkdir(parents=True, exist_ok=True)
    (place.into / "new" / "deep" / "file.txt").write_bytes(b"com")
    (place.into / ".git" / "index.lock").write_bytes(b"")
    mine = place.into / "src" / "file 4.c"
    kept = mine.read_bytes()
    mine.write_text("my edit, made between the kill and the next call\n")
    with pytest.raises(SourceIntegrityError) as caught:
        place.checkout(nested.second)
    assert caught.value.evidence["edits"] == [["src/file 4.c", "modified"]]
    assert mine.read_text().startswith("my edit")
    mine.write_bytes(kept)
    place.checkout(nested.second)
    assert snapshot(place.into) == trees[nested.second]


def _blob(nested: Nested, commit: str, path: str) -> bytes:
    shown = subprocess.run(
        ["git", "cat-file", "blob", f"{commit}:{path}"], cwd=nested.top.path, capture_output=True, check=True
    )
    return shown.stdout


def test_a_kill_in_the_middle_of_the_transfer_is_mended(
    nested: Nested, place: _Place, server: GitServer, trees: dict[str, dict[str, str]]
) -> None:
    server.faults.hang = True
    child = place.child(nested.first)
    until = time.monotonic() + 20
    while not server.requests and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert _no_git_is_left(place)  # the supervisor took git along
    server.faults.hang = False
    server.stopping.set()
    place.checkout(nested.first)
    assert snapshot(place.into) == trees[nested.first]

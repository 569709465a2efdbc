"""Programs that checks start: how they ended is told apart, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from xpubuild.verify.suite.children import Ended, Talking, run_beside, run_one


def program(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_program_has_its_environment_folder_and_both_streams(tmp_path: Path) -> None:
    (tmp_path / "where").mkdir()
    code = (
        "import os, sys; print(os.environ['ADDED'], os.getcwd(), flush=True); print('err', file=sys.stderr)"
    )
    ended = run_one(
        program(code), deadline_s=30, folder=tmp_path / "a", env={"ADDED": "yes"}, cwd=tmp_path / "where"
    )
    assert ended.ok
    assert ended.output.split() == ["yes", os.path.realpath(tmp_path / "where"), "err"]
    assert not list((tmp_path / "a").iterdir())


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('no such model'); raise SystemExit(3)", "the script exited with code 3: no such model"),
        ("import os; os.abort()", "the script was killed by SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "the script was killed by SIGSEGV"),
    ],
)
def test_failures_are_told_apart(tmp_path: Path, code: str, said: str) -> None:
    ended = run_one(program(code), deadline_s=30, folder=tmp_path)
    assert (ended.ok, ended.describe("the script")) == (False, said)
    assert Ended(-250, timed_out=False, output="").describe("it") == "it was killed by signal 250"


def test_what_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    child = "import time; time.sleep(600)"
    code = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "print(p.pid, flush=True)\n"
        "time.sleep(600)"
    )
    ended = run_one(program(code), deadline_s=3, folder=tmp_path)
    assert ended.timed_out
    assert ended.describe("it").startswith("it timed out")
    grandchild = Path("/proc") / ended.output.split()[0]
    for _ in range(100):
        if not grandchild.exists() or "Z" in grandchild.joinpath("stat").read_text().rpartition(")")[2][:3]:
            return
        time.sleep(0.05)
    pytest.fail("a process of the program is still there")


@pytest.mark.parametrize("first", [True, False])
def test_one_that_fails_ends_the_others(tmp_path: Path, first: bool) -> None:
    programs = [program("raise SystemExit(2)"), program("import time; time.sleep(600)")]
    start = time.monotonic()
    ended = run_beside(programs if first else programs[::-1], deadline_s=120, folder=tmp_path)
    assert time.monotonic() - start < 60
    assert sorted(end.status for end in ended) == [-9, 2]
    assert not any(end.timed_out for end in ended)


@pytest.mark.parametrize("group", [True, False])
def test_a_program_that_talks(tmp_path: Path, *, group: bool) -> None:
    code = (
        "import os, sys; print(dict(os.environ).get('A'), os.getpgrp() == os.getpid(), flush=True);"
        " print(sys.stdin.readline(), file=sys.stderr); sys.exit(3)"
    )
    talking = Talking([sys.executable, "-c", code], {"A": "b"}, log=tmp_path / "log", group=group)
    assert talking.line(20.0) == f"b {group}\n".encode()
    assert talking.line(0.01) is None
    talking.send(b"a line")
    assert talking.line(20.0) == b""
    assert talking.end(20.0) == 3
    assert (tmp_path / "log").read_text() == "a line\n\n"
    silent = Talking([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ), group=group)
    assert silent.end() == -signal.SIGKILL

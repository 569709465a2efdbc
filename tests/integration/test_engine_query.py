"""Short questions: both streams whole and apart."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from support.engine import MARK, PATH, new_mark, nothing_left

from xpubuild.engine import watch
from xpubuild.engine.process import Cancel, query
from xpubuild.errors import ToolchainError

BASE = {"PATH": PATH}


#: Also after errors.
pytestmark = pytest.mark.usefixtures("nothing_stays_open")


def test_the_streams_are_apart_and_whole() -> None:
    result = query(
        ["sh", "-c", "printf 'out\\r\\n\\nno end'; printf 'err \\303\\274\\n' >&2; exit 4"], env=BASE
    )
    assert result.stdout == "out\r\n\nno end"
    assert result.stderr == "err \u00fc\n"
    assert (result.returncode, result.ok, result.timed_out) == (4, False, False)
    assert result.argv[0].endswith("/sh")


def test_much_on_both_streams_does_not_block() -> None:
    text = """
import os, threading
def fill(fd, byte):
    for _ in range(100):
        os.write(fd, byte * 65536)
threads = [threading.Thread(target=fill, args=item) for item in ((1, b"o"), (2, b"e"))]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    result = query([sys.executable, "-c", text], env=BASE, deadline_s=60)
    assert result.ok
    assert result.stdout.strip("o") == result.stderr.strip("e") == ""
    assert (len(result.stdout), len(result.stderr)) == (6_553_600, 6_553_600)


@pytest.mark.parametrize("order", ["1 2", "2 1"])
def test_one_stream_after_the_other_does_not_block(order: str) -> None:
    result = query(["sh", "-c", f"for fd in {order}; do head -c 3000000 /dev/zero >&$fd; done"], env=BASE)
    assert (len(result.stdout), len(result.stderr), result.ok) == (3_000_000, 3_000_000, True)


def test_invalid_utf8_is_replaced() -> None:
    assert query(["printf", "a\\377b"], env=BASE).stdout == "a\ufffdb"


def test_the_environment_is_exactly_the_one_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKY", "yes")
    assert query(["/usr/bin/env", "-0"], env={"ONE": "1 \u00fc"}).stdout == "ONE=1 \u00fc\0"


def test_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "w\u00f6rk space"
    folder.mkdir()
    assert query(["pwd"], env=BASE, cwd=folder).stdout == f"{folder}\n"
    with pytest.raises(ToolchainError, match="does not exist"):
        query(["pwd"], env=BASE, cwd=tmp_path / "missing")


def test_a_missing_program() -> None:
    with pytest.raises(ToolchainError, match="was not found"):
        query(["no-such-program"], env=BASE)


def test_a_deadline_keeps_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LADDER", ((signal.SIGINT, 0.2), (signal.SIGTERM, 0.2)))
    mark = new_mark()
    text = "trap '' INT TERM; echo said; echo complained >&2; setsid sleep 300 & sleep 300"
    started = time.monotonic()
    with nothing_left(mark):
        result = query(["sh", "-c", text], env={**BASE, MARK: mark}, deadline_s=0.8)
    assert result.timed_out
    assert not result.ok
    assert (result.stdout, result.stderr) == ("said\n", "complained\n")
    assert time.monotonic() - started < 20


def test_cancelled() -> None:
    cancel = Cancel()
    timer = threading.Timer(0.4, cancel.set, ["test"])
    timer.start()
    result = query(["sleep", "300"], env=BASE, cancel=cancel)
    timer.join()
    assert not result.ok
    assert result.returncode == -signal.SIGINT

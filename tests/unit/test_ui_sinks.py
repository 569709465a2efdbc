from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from xpubuild.engine.events import Event, Notice, RunStarted, StepOutput
from xpubuild.ui.live import RichSink
from xpubuild.ui.sinks import GithubSink, JsonLinesSink, PlainSink, SerialSink, make_sink

XTERM = {"TERM": "xterm-256color", "LANG": "C.UTF-8"}


class FakeTerminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("kind", "terminal", "env", "expected"),
    [
        (None, True, XTERM, RichSink),
        (None, True, {**XTERM, "TERM": "dumb"}, PlainSink),
        (None, True, {**XTERM, "NO_COLOR": "1"}, PlainSink),
        (None, True, {**XTERM, "CI": "true"}, PlainSink),
        (None, True, {**XTERM, "CI": "false"}, RichSink),
        (None, False, XTERM, PlainSink),
        (None, False, {"GITHUB_ACTIONS": "true", "CI": "true"}, GithubSink),
        (None, False, {"GITHUB_ACTIONS": "false"}, PlainSink),
        ("rich", True, {**XTERM, "CI": "true"}, RichSink),
        ("rich", True, {**XTERM, "NO_COLOR": "1"}, RichSink),
        ("rich", False, XTERM, PlainSink),
        ("rich", True, {"TERM": "dumb"}, PlainSink),
        ("plain", True, XTERM, PlainSink),
        ("github", True, XTERM, GithubSink),
        ("jsonl", True, XTERM, JsonLinesSink),
    ],
)
def test_choice(kind: str | None, terminal: bool, env: dict[str, str], expected: type) -> None:
    stream = FakeTerminal() if terminal else io.StringIO()
    assert type(make_sink(kind, stream, env).inner) is expected


def test_json_lines_are_whole_ascii_and_at_once() -> None:
    stream = io.StringIO()
    sink = make_sink("jsonl", stream, {})
    sink.emit(RunStarted(1.5, "q", "/über\udcff", (("a", "A"),), ()))
    assert json.loads(stream.getvalue()) == {
        "event": "run-started", "time": 1.5, "recipe": "q", "workspace": "/über\udcff",
        "steps": [["a", "A"]], "done": [],
    }  # fmt: skip
    sink.emit(StepOutput(2.0, "a", "line\nbreak"))
    sink.close()
    assert stream.getvalue().isascii()
    assert len(stream.getvalue().splitlines()) == 2


class Recorder:
    """A sink that notices when two calls overlap."""

    period_s = 0.001

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self.ticks = 0
        self.overlaps = 0
        self.closed = 0
        self._inside = False

    def _enter(self) -> None:
        self.overlaps += self._inside
        self._inside = True
        time.sleep(0.0002)
        self._inside = False

    def emit(self, event: Event) -> None:
        self._enter()
        self.seen.append(event)

    def tick(self) -> None:
        self._enter()
        self.ticks += 1

    def close(self) -> None:
        self.closed += 1


def test_calls_from_many_threads_come_one_at_a_time_and_in_order() -> None:
    inner = Recorder()
    with SerialSink(inner, io.StringIO()) as sink:

        def talk(name: str) -> None:
            for number in range(50):
                sink.emit(StepOutput(float(number), name, "x"))

        threads = [threading.Thread(target=talk, args=(f"s{n}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert inner.overlaps == 0
    assert inner.ticks > 0
    for name in {f"s{n}" for n in range(8)}:
        times = [event.time for event in inner.seen if isinstance(event, StepOutput) and event.step == name]
        assert times == [float(number) for number in range(50)]


@pytest.mark.parametrize("number", [errno.EPIPE, errno.EIO, errno.ENOSPC])
def test_a_stream_that_breaks_does_not_end_the_run(number: int) -> None:
    class Broken(io.StringIO):
        writes = 0

        def write(self, text: str) -> int:
            self.writes += 1
            raise OSError(number, os.strerror(number))

    stream = Broken()
    with make_sink("plain", stream, {}) as sink:
        sink.emit(Notice(1.0, "info", "x"))
        sink.emit(Notice(1.0, "info", "y"))
    assert sink.broken
    assert stream.writes == 1


_TALKER = """
import os, sys, time
from xpubuild.engine.events import Notice
from xpubuild.ui.sinks import make_sink
with make_sink({kind!r}, sys.stderr, os.environ) as sink:
    for number in range(2000):
        sink.emit(Notice(time.time(), "info", "x" * 200))
print("went on", sink.broken)
"""


@pytest.mark.parametrize("kind", ["plain", "github", "jsonl"])
def test_a_reader_that_goes_away_leaves_the_exit_status_alone(kind: str) -> None:
    """Python would turn the status into 120 for what is left in the buffer of a broken stream."""
    read, write = os.pipe()
    # Unbuffered, Python would have nothing left to fail with.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    argv = [sys.executable, "-c", _TALKER.format(kind=kind)]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=write, text=True, env=env)
    os.close(write)
    os.read(read, 10)
    os.close(read)
    out, _ = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, "went on True\n")


def test_rich_is_not_imported_without_need() -> None:
    program = (
        "import io, sys; from xpubuild.ui.sinks import make_sink; from xpubuild.ui import console\n"
        "from xpubuild.ui import run_views\n"
        "make_sink(None, io.StringIO(), {}).close(); console.show([], io.StringIO(), {})\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('rich', 'pydantic', 'yaml')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

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

from xpubuild.engine.events import Event, Notice, RunFinished, RunStarted, StepFinished, StepOutput
from xpubuild.errors import UsageError
from xpubuild.ui.live import RichSink
from xpubuild.ui.sinks import KINDS, GithubSink, JsonLinesSink, PlainSink, SerialSink, make_sink

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


def test_quiet_has_no_live_picture() -> None:
    assert type(make_sink("rich", FakeTerminal(), XTERM, quiet=True).inner) is PlainSink


def test_unknown_kind_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown log format 'xml'") as caught:
        make_sink("xml", io.StringIO(), {})
    assert all(kind in caught.value.why for kind in KINDS)


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


def test_json_lines_when_quiet() -> None:
    stream = io.StringIO()
    with make_sink("jsonl", stream, {}, quiet=True) as sink:
        for event in (
            StepOutput(1.0, "a", "x"),
            StepFinished(2.0, "a", "A", "done", 1.0),
            RunFinished(3.0, "ok", 3.0),
        ):
            sink.emit(event)
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["run-finished"]


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


def test_close_is_safe_twice_stops_the_ticker_and_drops_what_follows() -> None:
    inner = Recorder()
    sink = SerialSink(inner, io.StringIO())
    sink.emit(Notice(1.0, "info", "x"))
    sink.close()
    sink.close()
    ticks = inner.ticks
    sink.emit(Notice(2.0, "info", "y"))
    time.sleep(0.02)
    assert (inner.closed, len(inner.seen), inner.ticks) == (1, 1, ticks)


def test_an_event_from_inside_an_emit_comes_afterwards() -> None:
    """A signal handler runs in the middle of whatever the main thread does."""

    class Interrupted(Recorder):
        def emit(self, event: Event) -> None:
            if event.time == 1.0:
                sink.emit(Notice(2.0, "info", "from the handler"))
            super().emit(event)

    inner = Interrupted()
    sink = SerialSink(inner, io.StringIO())
    sink.emit(Notice(1.0, "info", "first"))
    sink.close()
    assert [event.time for event in inner.seen] == [1.0, 2.0]


def test_a_sink_is_closed_when_the_run_raises() -> None:
    inner = Recorder()
    with pytest.raises(RuntimeError, match="boom"), SerialSink(inner, io.StringIO()):
        raise RuntimeError("boom")
    assert inner.closed == 1


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


def test_a_closed_stream_does_not_end_the_run() -> None:
    stream = io.StringIO()
    stream.close()
    with make_sink("plain", stream, {}) as sink:
        sink.emit(Notice(1.0, "info", "x"))
    assert sink.broken


def test_a_bug_in_a_sink_is_not_hidden() -> None:
    class Buggy(Recorder):
        def emit(self, event: Event) -> None:
            raise KeyError("bug")

    with SerialSink(Buggy(), io.StringIO()) as sink, pytest.raises(KeyError, match="bug"):
        sink.emit(Notice(1.0, "info", "x"))


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

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from xpubuild.engine.events import Event, Notice, RunStarted, StepOutput
from xpubuild.errors import BuildError, UsageError, XpuBuildError
from xpubuild.ui import console
from xpubuild.ui.live import RichSink
from xpubuild.ui.parts import Commands, Facts, Table, table
from xpubuild.ui.sinks import GithubSink, JsonLinesSink, PlainSink, SerialSink, make_sink
from xpubuild.ui.terminal import Terminal

XTERM = {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


class FakeTerminal(io.StringIO):
    """A stream that says it is a terminal (of 80 columns, as it has no file descriptor)."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def error_text(
    error: XpuBuildError, stream: io.StringIO | None = None, env: Mapping[str, str] = {}, **kind: bool
) -> str:
    stream = stream or io.StringIO()
    console.render_error(error, stream, env=env, **kind)
    return stream.getvalue()


@pytest.fixture
def failure(tmp_path: Path) -> BuildError:
    log = tmp_path / "über logs" / "ops.log"
    log.parent.mkdir()
    log.write_text(
        "".join(f"line {n}\n" for n in range(40))
        + "\x1b[31mred\x1b[0m ##[x] \udcff\n".encode("utf-8", "replace").decode()
    )
    return BuildError(
        "building xpubuild-ops failed",
        why="g++ exited with code 1\nin a.cpp",
        fix="mend a.cpp",
        commands=["xpubuild install quickstart --workspace '/home/u/über space/ws' " + "--some-option " * 9],
        log=log,
    )


def test_error_as_plain_text(failure: BuildError) -> None:
    lines = error_text(failure).splitlines()
    assert lines[:9] == [
        "error: building xpubuild-ops failed",
        "  why: g++ exited with code 1",
        "       in a.cpp",
        "  fix: mend a.cpp",
        "",
        "  run:",
        "      " + failure.commands[0],
        "",
        f"  log: {failure.log}",
    ]
    assert lines[9:-1] == [*(f"    | line {n}" for n in range(26, 40)), "    | red ## [x] ?"]
    assert lines[-1] == "  (build, exit code 50)"


def test_error_on_a_terminal_wraps_words_and_never_commands(failure: BuildError) -> None:
    failure.why = "a long explanation with /a/very/long/path/" + "x" * 100 + " " + "word " * 40
    coloured = error_text(failure, FakeTerminal(), XTERM)
    assert coloured.startswith("\x1b[1;31merror: \x1b[0mbuilding")
    lines = _ESCAPES.sub("", coloured).splitlines()
    assert "      " + failure.commands[0] in lines, "one line, to be copied"
    wrapped = [line for line in lines if "word" in line]
    assert len(wrapped) > 2
    assert all(len(line) < 80 for line in wrapped)
    assert any("/a/very/long/path/" + "x" * 100 in line for line in lines), "a path stays whole"
    assert "\x1b" not in error_text(failure, FakeTerminal(), {**XTERM, "NO_COLOR": "1"})


def test_error_as_annotation(failure: BuildError) -> None:
    last = error_text(failure, github=True).splitlines()[-1]
    assert last.startswith("::error title=xpubuild%3A build::building xpubuild-ops failed%0Ag++ exited with")
    assert "mend a.cpp" in last


def test_a_reader_that_is_gone_is_no_error() -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "gone")

    console.render_error(UsageError("x"), Broken(), env={})
    closed = io.StringIO()
    closed.close()
    console.render_error(UsageError("x"), closed, env={})


def shown(
    columns: Sequence[str], rows: Iterable[Sequence[object]], stream: io.StringIO, env: dict[str, str],
    title: str = "",
) -> None:  # fmt: skip
    console.show([table(title, columns, rows)], stream, env)


def test_table_in_a_pipe_is_aligned_whole_and_without_frames() -> None:
    stream = io.StringIO()
    long = "/a/long/path/" + "x" * 80
    rows = [("ops", 12, long), ("ステップ", None, "multi\nline"), ("[bold]", 1234567, "")]
    shown(["name", ">count", "where"], rows, stream, {}, "Things")
    assert stream.getvalue().splitlines() == [
        "Things",
        "NAME        COUNT  WHERE",
        f"ops            12  {long}",
        "ステップ        -  multi line",
        "[bold]    1234567  -",
    ]


def test_table_on_a_terminal_is_folded_and_never_cut() -> None:
    stream = FakeTerminal()
    long = "/a/long/path/" + "x" * 300
    shown(["name", "where"], [("[bold]:smile:", long), ("ok", "")], stream, XTERM)
    text = _ESCAPES.sub("", stream.getvalue())
    assert text.count("x") == 300
    assert "[bold]:smile:" in text
    assert "╭" in text
    assert all(len(line) <= 80 and line == line.rstrip() for line in text.splitlines())
    assert "\x1b[32mok" in stream.getvalue()


@pytest.mark.parametrize("width", [80, 40])
def test_no_word_is_broken_and_no_number_loses_its_unit(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terminal, "size", lambda _: (width, 24))
    why = "compiled from the pinned sources of PyTorch with everything that belongs to them"
    rows = [("torch.wheel", "done", "3 h 20 min", "62.1 GiB", why), ("env", "to do", "12 s", "0.2 GiB", "")]
    stream = FakeTerminal()
    shown(["step", "status", ">time", ">peak memory", "why"], rows, stream, XTERM)
    text = _ESCAPES.sub("", stream.getvalue())
    assert all(len(line) <= width for line in text.splitlines())
    for whole in ("torch.wheel", "to do", "3 h 20 min", "62.1 GiB", "0.2 GiB", "peak memory", *why.split()):
        assert whole in text
    assert ("╭" in text) == (width == 80)


def test_facts_and_commands() -> None:
    command = "xpubuild verify" + " --x" * 60
    parts = [
        Facts((("python", "3.11"), ("c++ abi", "1")), "Plan"),
        Facts(()),
        Commands((command,), "Next, try"),
        Commands((), "nothing"),
        Table(("a",), (), "Empty"),
    ]
    stream = io.StringIO()
    console.show(parts, stream, {})
    assert stream.getvalue() == (f"Plan\npython:  3.11\nc++ abi: 1\n\nNext, try:\n  {command}\n")
    terminal = FakeTerminal()
    console.show(parts, terminal, XTERM)
    lines = _ESCAPES.sub("", terminal.getvalue()).splitlines()
    assert "python   3.11" in lines
    assert f"  {command}" in lines, "a command is never broken into lines"


# ---- Sinks: which one is chosen, and what they do with threads, broken streams and readers that go away


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

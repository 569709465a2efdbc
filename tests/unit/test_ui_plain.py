from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.test_ui_console import FakeTerminal

from xpubuild.engine.events import (
    Event,
    Notice,
    RunFinished,
    RunForecast,
    RunStarted,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
)
from xpubuild.ui import wording as show
from xpubuild.ui.sinks import PlainSink
from xpubuild.ui.terminal import Terminal, clean, one_line
from xpubuild.ui.wording import Level

T0 = 1_700_000_000.0
START = RunStarted(
    T0, "quickstart", "/home/u/über space/ws", (("env", "Environment"), ("ops", "Build ops")), ("env",)
)


class Fixture:
    """A plain sink that writes into memory, with a clock the test moves."""

    def __init__(self, level: Level = Level.NORMAL, color: bool = False) -> None:
        self.stream = io.StringIO()
        self.now = T0
        terminal = Terminal(self.stream, live=False, color=color, unicode=True)
        self.sink = PlainSink(terminal, level, clock=lambda: self.now)

    def emit(self, *events: Event) -> list[str]:
        before = len(self.stream.getvalue())
        for event in events:
            self.sink.emit(event)
        return self.stream.getvalue()[before:].splitlines()


def progress(after_s: float, done: int, total: int = 1000, detail: str = "compiling a.cpp") -> StepProgress:
    return StepProgress(T0 + after_s, "ops", done, total, "edges", detail)


def started(after_s: float = 0.0) -> StepStarted:
    return StepStarted(T0 + after_s, "ops", "Build ops", "/ws/logs/ops.log", "its inputs changed")


def test_what_is_left_is_told_at_first_and_then_rarely() -> None:
    def forecast(after_s: float, left_s: float) -> RunForecast:
        return RunForecast(T0 + after_s, left_s, (("ops", left_s),), ())

    fixture = Fixture()
    first = fixture.emit(started(), forecast(5, 2400))
    assert first[1:] == ["[0:00:05] about 40 min left"]
    assert fixture.emit(*(forecast(after, 2300) for after in range(10, 240, 5))) == []
    assert fixture.emit(forecast(246, 2150))[0].startswith("[0:04:06] about 35 min left")
    assert Fixture().emit(forecast(5, 0)) == []
    assert Fixture(Level.QUIET).emit(forecast(5, 2400)) == []


def test_a_silent_step_shows_that_it_lives() -> None:
    fixture = Fixture()
    fixture.emit(START, started(), progress(30, 999, detail="linking libtorch_xpu.so"))
    before = len(fixture.stream.getvalue())
    for second in range(30, 211, 5):
        fixture.now = T0 + second
        fixture.sink.tick()
    assert fixture.stream.getvalue()[before:].splitlines() == [
        "[0:01:30] ops: still running after 1m 30s: linking libtorch_xpu.so",
        "[0:02:30] ops: still running after 2m 30s: linking libtorch_xpu.so",
        "[0:03:30] ops: still running after 3m 30s: linking libtorch_xpu.so",
    ]


def test_quiet_tells_failures_and_the_end() -> None:
    fixture = Fixture(Level.QUIET)
    lines = fixture.emit(
        START, started(), StepOutput(T0, "ops", "x"), progress(60, 500), Notice(T0, "warning", "w"),
        StepFinished(T0, "env", "E", "done", 1.0), Notice(T0 + 1, "error", "bad"),
        StepFinished(T0 + 9, "ops", "Build ops", "failed", 9.0), RunFinished(T0 + 9, "failed", 9.0),
    )  # fmt: skip
    fixture.now = T0 + 1000
    fixture.sink.tick()
    assert lines == [
        "[0:00:01] error: bad",
        "[0:00:09] ops: FAILED after 9.0 s (log: /ws/logs/ops.log)",
        "[0:00:09] FAILED after 9.0 s",
    ]


_text = st.text(max_size=40)
_events = st.one_of(
    st.builds(StepOutput, st.just(T0), _text, _text),
    st.builds(Notice, st.just(T0), st.sampled_from(["info", "warning", "error"]), _text, _text),
    st.builds(StepStarted, st.just(T0), _text, _text, _text, _text),
    st.builds(StepFinished, st.just(T0), _text, _text, _text, st.floats(0, 1e6), st.integers(0, 9**9), _text),
    st.builds(
        StepProgress, st.floats(T0, T0 + 1e5), _text, st.integers(-5, 100), st.integers(-5, 100), _text,
        _text,
    ),
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(_events, max_size=20))
def test_never_a_carriage_return_or_an_escape(events: list[Event]) -> None:
    fixture = Fixture(Level.VERBOSE)
    for event in events:
        fixture.sink.emit(event)
    text = fixture.stream.getvalue()
    assert not {"\r", "\x1b", "\x08"} & set(text)
    assert all(line.startswith("[") for line in text.split("\n") if line)


@pytest.mark.parametrize(
    ("env", "terminal", "live", "color"),
    [
        ({"TERM": "xterm"}, True, True, True),
        ({"TERM": "xterm"}, False, False, False),
        ({"TERM": "dumb"}, True, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, False, False),
        ({}, True, False, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, True, True, False),
        ({"FORCE_COLOR": "1"}, False, False, True),
        ({"FORCE_COLOR": "0"}, False, False, False),
    ],
)
def test_what_a_stream_can_show(env: dict[str, str], terminal: bool, live: bool, color: bool) -> None:
    found = Terminal.detect(FakeTerminal() if terminal else io.StringIO(), env)
    assert (found.live, found.color) == (live, color)


@pytest.mark.parametrize(
    ("encoding", "env", "unicode"),
    [
        ("utf-8", {"LANG": "de_DE.UTF-8"}, True),
        ("utf-8", {}, True),
        ("utf-8", {"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, False),
        ("utf-8", {"LC_CTYPE": "C.UTF-8", "LANG": "C"}, True),
        ("utf-8", {"LC_ALL": "", "LANG": "POSIX"}, False),
        ("iso-8859-1", {"LANG": "de_DE.UTF-8"}, False),
        ("ascii", {}, False),
        ("utf-8", {"TERM": "linux", "LANG": "C.UTF-8"}, False),
    ],
)
def test_characters_beyond_ascii(encoding: str, env: dict[str, str], unicode: bool) -> None:
    stream = FakeTerminal()
    stream.encoding = encoding
    assert Terminal.detect(stream, env).unicode is unicode


def test_foreign_text_is_cleaned() -> None:
    text = "\x1b[31mred\x1b[0m \x1b]0;title\x07a\tb\x08\x1b(B\r\nnext\x1b[2K\rlast\x9b"
    assert clean(text) == "red a    b\nnext\nlast"
    assert one_line("a\nb\r\nc") == "a b c"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0.0 s"), (0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1m 00s"),
     (185, "3m 05s"), (3599.6, "1h 00m"), (7384, "2h 03m")],
)  # fmt: skip
def test_duration(seconds: float, text: str) -> None:
    assert show.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "decimal", "binary"),
    [(0, "0 B", ""), (999, "999 B", "999 B"), (999_600, "1.0 MB", "976 KiB"),
     (12_345_678, "12.3 MB", "11.8 MiB"), (3 << 30, "3.2 GB", "3.0 GiB"),
     (5 * 10**15, "5000 TB", "4547 TiB")],
)  # fmt: skip
def test_bytes(count: int, decimal: str, binary: str) -> None:
    assert show.size(count) == decimal
    assert show.memory(count) == binary


@pytest.mark.parametrize("moment", [1e30, float("nan")])
def test_a_moment_of_a_damaged_clock_is_unknown(moment: float) -> None:
    assert show.when(moment) == "unknown"

"""What a person's terminal shows of a run: lines of what ended, and a picture of what runs."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from xpubuild.engine.events import (
    Event,
    Notice,
    RunFinished,
    RunForecast,
    RunStarted,
    StepFinished,
    StepProgress,
    StepStarted,
)
from xpubuild.ui.live import RichSink
from xpubuild.ui.terminal import Terminal

T0 = 1_700_000_000.0
NAMES = ("env", "src", "pytorch", "vision", "ops", "verify")
EVENTS = (
    RunStarted(T0, "2.8", "/home/u/über space/ws", tuple((name, f"Title of {name}") for name in NAMES), ()),
    StepFinished(T0, "env", "Title of env", "up-to-date", 0.0),
    StepStarted(T0, "src", "Title of src", "/l/src.log"),
    StepFinished(T0 + 5, "src", "Title of src", "done", 5.0),
    StepStarted(T0 + 5, "pytorch", "Title of pytorch", "/l/p.log", "its inputs changed"),
    StepStarted(T0 + 5, "vision", "Title of vision", "/l/v.log", "not run here before"),
    StepProgress(T0 + 35, "pytorch", 345, 1380, "edges", "compiling Reduce.cpp"),
    StepStarted(T0 + 5, "ops", "Title of ops", "/l/ops.log"),
    StepFinished(T0 + 9, "ops", "Title of ops", "failed", 4.0, 0, "status 1"),
)  # fmt: skip


def sink_of(*events: Event, unicode: bool = True) -> RichSink:
    terminal = Terminal(io.StringIO(), live=True, color=False, unicode=unicode)
    made = RichSink(terminal, clock=lambda: T0 + 40)
    for event in events:
        made.emit(event)
    return made


def written(sink: RichSink) -> list[str]:
    """Return the lines above the picture that wait to be written."""
    return [line.plain for line in sink._above]


def frame(sink: RichSink, columns: int = 80) -> list[str]:
    """Return the rows of the picture, as rich draws it for a terminal without colour."""
    console = Console(file=io.StringIO(), width=columns, height=24, color_system=None, legacy_windows=False)
    lines = console.render_lines(sink.frame(), pad=False)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def test_what_ended_stands_above_and_what_runs_below() -> None:
    sink = sink_of(*EVENTS)
    assert written(sink) == [
        "2.8  /home/u/über space/ws",
        "  ✓ env: Title of env, up to date",
        "  ✓ src: Title of src, 5.0 s",
        "  ✗ ops: Title of ops, 4.0 s",
        "    status 1",
        "    log: /l/ops.log",
    ]
    assert frame(sink) == [
        "  ⠋ pytorch: Title of pytorch, 0:00:35",
        "    ━━───────  345/1380 edges  25%  compiling Reduce.cpp",
        "  ⠋ vision: Title of vision, 0:00:35",
        "    not run here before",
        "2 of 6 steps done · 1 failed · 0:00:40 · Ctrl-C stops; run again to resume",
        "",
    ]
    sink.close()


def test_what_is_left_stands_in_the_last_row() -> None:
    sink = sink_of(*EVENTS, RunForecast(T0 + 40, 2400.0, (("pytorch", 2400.0),), ("vision",)))
    assert "0:00:40 · at least 40 min left · Ctrl-C" in frame(sink, columns=120)[-2]
    sink.close()


def test_the_end_leaves_no_picture() -> None:
    sink = sink_of(*EVENTS, Notice(T0 + 41, "warning", "watch out", "ops"))
    sink.tick()
    sink.emit(RunFinished(T0 + 50, "failed", 50.0))
    assert frame(sink) == [""]
    out = sink.terminal.stream.getvalue()  # type: ignore[attr-defined]
    assert "\nops: warning: watch out\n" in out
    assert "FAILED after 50 s\n" in out


def test_what_is_broken_off_is_said() -> None:
    sink = sink_of(*EVENTS)
    sink.close()
    out = sink.terminal.stream.getvalue()  # type: ignore[attr-defined]
    assert "  ■ pytorch: Title of pytorch, 35 s" in out
    assert "\ninterrupted after 40 s\n" in out


def test_ascii_and_wide_characters() -> None:
    events = (
        RunStarted(T0, "q", "/ws", (("step", "t" * 200),), ()),
        StepStarted(T0, "step", "日本語の題" * 20, "/l", ""),
        StepProgress(T0, "step", 1, 2, "edges"),
    )
    sink = sink_of(*events, unicode=False)
    lines = frame(sink, 40)
    assert lines[0].isascii()
    assert "###" in lines[1]
    sink.close()
    wide = sink_of(*events)
    assert frame(wide, 41)[0].endswith("…")
    wide.close()


_texts = st.text(max_size=30)


@settings(deadline=None, max_examples=50)
@given(st.lists(_texts, max_size=4, unique=True), st.integers(10, 200), _texts, st.booleans())
def test_foreign_text_cannot_break_the_picture(
    names: list[str], columns: int, text: str, unicode: bool
) -> None:
    sink = sink_of(RunStarted(T0, text, text * 9, tuple((name, text) for name in names), ()), unicode=unicode)
    for name in names:
        sink.emit(StepStarted(T0, name, text, "/l", f"re\nason\x1b[2J{text}"))
        sink.emit(StepProgress(T0, name, 9, 3, "e\ndges", f"d\x07etail\r\n{text}"))
    lines = frame(sink, columns)
    assert len(lines) == (2 * len(names) + 2 if names else 1)
    for line in (*lines, *written(sink)):
        assert not {"\n", "\r", "\x1b", "\x07"} & set(line)
    sink.close()

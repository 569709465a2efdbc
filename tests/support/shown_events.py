"""Events as they are told: their words, each sink, the live picture and its rows."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import Any

from support.data_files import dumped
from support.shown_parts import Stream
from support.shown_runs import RUNS, T0, coded
from xpubuild.engine.events import (
    Notice,
    RunFinished,
    RunForecast,
    RunStarted,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
)
from xpubuild.errors import UsageError
from xpubuild.ui import (
    github,
    sinks,
    wording,
)
from xpubuild.ui.jsonl import JsonLinesSink
from xpubuild.ui.level import Level, matters
from xpubuild.ui.level import shown as is_shown
from xpubuild.ui.live import RichSink
from xpubuild.ui.live_rows import Row, choose_rows
from xpubuild.ui.live_state import RunView, StepView
from xpubuild.ui.terminal import Terminal

_EVENTS = (
    RunStarted(T0, "r", "/w", (("a", "A"),), ()),
    RunStarted(T0, "r", "/w", (("a", "A"), ("b", "B")), ("a",)),
    StepStarted(T0, "a", "A", "/l"),
    StepStarted(T0, "a", "A\nB", "/l", "why"),
    StepOutput(T0, "a", "line"),
    StepProgress(T0, "a", 0, 0, "", 0.0, 0.0, "detail"),
    StepProgress(T0, "a", 5, 10, "edges", 0.5, 9.0),
    StepProgress(T0, "a", 15, 10, "edges", 0.0, 0.0, "detail"),
    StepProgress(T0, "a", -5, 10, "bytes", 1e6, 0.0),
    StepProgress(T0, "a", 999, 1000, "edges", 0.0, 3.0),
    *(
        StepFinished(T0, "a", "A", status, 61.0)
        for status in ("up-to-date", "done", "failed", "cancelled", "odd")
    ),
    StepFinished(T0, "a", "A", "failed", 1.0, 1 << 30, "detail"),
    StepFinished(T0, "a", "A", "done", 1.0, 0, "detail"),
    *(RunForecast(T0, left_s, (), (), 0, ()) for left_s in (0.0, 59.0, 60.0)),
    RunForecast(T0, 59.0, (), ("a", "b"), 0, ()),
    RunForecast(T0, 600.0, (), ("a",), 1 << 30, (("x", 61.0, 1 << 20), ("y", 1.0, 0))),
    *(Notice(T0, level, "text\nmore", step) for level in ("info", "warning", "error") for step in ("", "a")),
    *(RunFinished(T0, status, 61.0) for status in ("ok", "failed", "cancelled", "odd")),
)


def _words_of(event: Any) -> Any:  # noqa: PLR0911 - one for each event
    match event:
        case RunStarted():
            return wording.run_started(event)
        case StepStarted():
            return wording.step_started(event)
        case StepProgress():
            return [wording.progress(event), wording.percent(event)]
        case StepFinished():
            return [wording.step_finished(event), wording.step_finished(event, "/l")]
        case RunForecast():
            return [wording.left(event), wording.longest(event), wording.forecast(event)]
        case Notice():
            return wording.notice(event)
        case RunFinished():
            return wording.run_finished(event)
    return None


def _events() -> str:
    """Return the words of each event, and at which level it is told."""
    rows = []
    for event in _EVENTS:
        told = [level.name for level in Level if is_shown(event, level)]
        lines = []
        for level in (Level.QUIET, Level.NORMAL):
            stream = io.StringIO()
            sink = JsonLinesSink(Terminal(stream, live=False, color=False, unicode=True), level)
            sink.emit(event)
            sink.close()
            lines.append(stream.getvalue().strip() != "")
        rows.append([type(event).__name__, _words_of(event), told, matters(event), lines])
    odd = ("a%b\r\nc", "x: y, z", "##[error] a ##[b]", "plain")
    told_github = {
        text: [github.escape_data(text), github.escape_property(text), github.harmless(text),
               github.annotation("error", text), github.annotation("warning", text, text)]
        for text in odd
    }  # fmt: skip
    return dumped({"events": rows, "github": told_github, "sinks": _sinks()})


def _sinks() -> dict[str, Any]:
    told: dict[str, Any] = {}
    for kind in ("rich", "plain", "github", "jsonl", "loud"):
        for tty in (True, False):
            for words_ in ({}, {"quiet": True}, {"verbose": True}, {"quiet": True, "verbose": True}):
                name = " ".join((kind, "terminal" if tty else "pipe", *words_))
                try:
                    inner = sinks.make_sink(kind, Stream(tty=tty), {"TERM": "xterm"}, **words_).inner
                    told[name] = [type(inner).__name__, inner.level.name]  # type: ignore[attr-defined]
                except UsageError as error:
                    told[name] = [error.what, error.why, error.fix]
    return told


class _Sized(Terminal):
    def size(self) -> tuple[int, int]:
        return 60, 12


def _live() -> str:
    """Return all that is written to a terminal of a run, at each level."""
    texts = []
    for level in (Level.NORMAL, Level.VERBOSE):
        for name, events in RUNS.items():
            stream, now = io.StringIO(), [T0]
            sink = RichSink(
                _Sized(stream, True, level is Level.VERBOSE, level is Level.VERBOSE),
                level,
                partial(now.__getitem__, 0),
            )
            for number, event in enumerate(events):
                now[0] = event.time
                sink.emit(event)
                if number % 7 == 0:
                    sink.tick()
            sink.emit(Notice(now[0], "info", "after the end"))
            sink.tick()
            sink.close()
            sink.close()
            texts.append(f"==== {name}, {level.name}\n{coded(stream.getvalue()).replace(chr(27), '^')}\n")
    return "".join(texts)


def _row_of(row: Row) -> str:
    if row.step is None:
        return f"{row.words} ({row.state})"
    return f"{row.step.id}{' below' if row.below else ''}{' alone' if row.alone else ''}"


def _rows() -> str:
    """Return which steps are chosen for each number of rows."""
    states = {
        "a run": "done done up-to-date running failed cancelled pending pending pending",
        "many at once": "running running running running failed pending",
        "an end": "done done done done done",
        "a beginning": "pending pending pending pending pending",
    }
    told: dict[str, Any] = {}
    for name, line in states.items():
        steps = [
            StepView(f"s{at}", "t", state, log="/l" if at % 2 else "")
            for at, state in enumerate(line.split())
        ]
        for room in range(10):
            told[f"{name}, {room} rows"] = [_row_of(row) for row in choose_rows(steps, room)]
    view = RunView()
    for event in (
        StepProgress(T0 + 5, "x", 1, 2, "e", 0, 0),
        Notice(T0 + 6, "info", "n"),
        StepProgress(T0 + 7, "x", 2, 2, "e", 0, 0),
    ):
        view.apply(event)
    step = view.steps["x"]
    told["progress alone"] = [
        view.began == T0 + 5,
        step.state,
        step.began - T0,
        view.count("running", "failed"),
    ]
    view.break_off(T0 + 4)
    told["broken off"] = [step.state, step.duration_s, view.count("running")]
    return dumped(told)


#: The name of the file -> the text in it.
TEXTS: dict[str, Callable[[], str]] = {
    "parts-events": _events,
    "parts-live": _live,
    "parts-rows": _rows,
}

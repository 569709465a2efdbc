"""What a person reads of runs and plans: events through each sink, pictures of each size, tables of steps."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

from xpubuild.engine.estimate import Estimate
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
from xpubuild.engine.model import Command, Plan, Step
from xpubuild.errors import NoXpuError, XpuBuildError
from xpubuild.ui import console
from xpubuild.ui.github import GithubSink
from xpubuild.ui.level import Level
from xpubuild.ui.live_draw import ASCII, UNICODE, Painter
from xpubuild.ui.live_state import RunView
from xpubuild.ui.plain import PlainSink
from xpubuild.ui.plan_view import plan_view
from xpubuild.ui.terminal import Terminal

T0 = 1_700_000_000.0
_NAMES = ("env", "src", "torch", "vision", "audio", "ops", "a-step-with-a-very-long-name-indeed", "verify")
_LOGS = "/a folder/logs"
_GIB = 1 << 30


def coded(text: str) -> str:
    """Return a text with the codes of its colours as words."""
    return re.sub(r"\x1b\[([0-9;]*)m", r"<\1>", text)


def _started(after_s: float, step: str, reason: str = "") -> StepStarted:
    return StepStarted(T0 + after_s, step, f"Title of {step}", f"{_LOGS}/{step}.log", reason)


def _finished(after_s: float, step: str, status: str, took_s: float, *more: object) -> StepFinished:
    return StepFinished(T0 + after_s, step, f"Title of {step}", status, took_s, *more)  # type: ignore[arg-type]


def _forecast(after_s: float, left_s: float, unknown: tuple[str, ...] = ()) -> RunForecast:
    slow = (("compiling A.cpp", 190.0, 4 * _GIB), ("linking libtorch.so", 70.0, 900 << 20))
    return RunForecast(T0 + after_s, left_s, (("torch", left_s),), unknown, 5 * _GIB, slow)


_BEGIN: tuple[Event, ...] = (
    RunStarted(T0, "2.13", "/a folder/ws", tuple((name, f"Title of {name}") for name in _NAMES), ("env",)),
    _finished(0, "env", "up-to-date", 0.0),
    _started(1, "src"),
    StepProgress(T0 + 2, "src", 50, 200, "objects", 0.0, 0.0),
    StepProgress(T0 + 14, "src", 0, 0, "", 0.0, 0.0, "checking out"),
    StepOutput(T0 + 15, "src", "\x1b[31mReceiving\x1b[0m objects: 100% (200/200)"),
    _finished(20, "src", "done", 19.0, _GIB),
    _started(20, "torch", "its inputs changed"),
    _started(21, "vision"),
    _started(21, "audio", "not run here before"),
    Notice(T0 + 22, "info", "for your information"),
    Notice(T0 + 23, "warning", "no flash attention\nand a second line", "torch"),
    StepProgress(T0 + 60, "torch", 345, 1380, "edges", 0.5, 2070.0, "compiling Reduce.cpp"),
    _forecast(61, 2400, ("audio",)),
    StepProgress(T0 + 62, "vision", 5, 5, "B", 2048.0, 0.0, "downloading"),
    StepOutput(T0 + 63, "vision", "one line\ttabbed"),
)
#: How a run goes on and ends -> its events.
RUNS: dict[str, tuple[Event, ...]] = {
    "ok": (
        *_BEGIN,
        _finished(64, "vision", "done", 43.0),
        _finished(65, "audio", "done", 44.0, 2 * _GIB, "a detail"),
        _forecast(700, 50),
        _finished(900, "torch", "done", 880.0, 12 * _GIB),
        RunFinished(T0 + 900, "ok", 900.0),
    ),
    "failed": (
        *_BEGIN,
        Notice(T0 + 64, "error", "the gate stopped it", "torch"),
        _finished(65, "vision", "failed", 44.0, 0, "g++ exited with code 1"),
        _finished(66, "torch", "cancelled", 46.0),
        _forecast(67, 50, ("audio", "verify")),
        _finished(70, "audio", "done", 49.0),
        RunFinished(T0 + 70, "failed", 70.0),
    ),
    "cancelled": (*_BEGIN, RunFinished(T0 + 64, "cancelled", 64.0)),
    "broken-off": _BEGIN,
}


class _Clock:
    def __init__(self) -> None:
        self.now = T0

    def __call__(self) -> float:
        return self.now


def _lines(level: Level, *, github: bool = False, color: bool = False) -> str:
    texts = []
    for name, events in RUNS.items():
        stream, clock = io.StringIO(), _Clock()
        terminal = Terminal(stream, live=False, color=color, unicode=True)
        kind = GithubSink if github else PlainSink
        sink = kind(terminal, level, clock)
        for event in events[:-1]:
            clock.now = event.time
            sink.emit(event)
        for seconds in (0, 61, 70, 130):
            clock.now = events[-2].time + seconds
            sink.tick()
        sink.emit(events[-1])
        sink.close()
        texts.append(f"==== {name}\n{coded(stream.getvalue())}")
    return "".join(texts)


def _pictures(columns: int, every_rows: Sequence[int], *, unicode: bool) -> str:
    """Return the picture at some moments of each run and the one that stays."""
    painter = Painter(columns, UNICODE if unicode else ASCII)
    texts = []
    for name, events in RUNS.items():
        run = RunView()
        for number, event in enumerate(events):
            run.apply(event)
            if number in (0, len(_BEGIN) - 3, len(_BEGIN) - 1, len(_BEGIN) + 2):
                for rows in every_rows:
                    frame = painter.frame(run, event.time + 1.3, rows)
                    texts.append(f"==== {name}, after {number + 1} events, {rows} rows\n")
                    texts += [f"{line.plain.rstrip()}\n" for line in frame]
        if name == "broken-off":
            run.break_off(events[-1].time + 2)
        texts.append(f"==== {name}, at the end\n")
        texts += [f"{line.plain.rstrip()}\n" for line in painter.last_frame(run, events[-1].time + 2)]
    return "".join(texts)


def _styles() -> str:
    """Return in which style each word of a picture is."""
    run = RunView()
    for event in RUNS["failed"]:
        run.apply(event)
    painter = Painter(100, UNICODE)
    frames = (painter.frame(run, T0 + 70, 24), painter.last_frame(run, T0 + 70))
    return "".join(
        f"{line.plain[span.start : span.end]!r}: {span.style}\n"
        for line in (line for frame in frames for line in frame)
        for span in line.spans
        if span.style
    )


def _plan() -> str:
    steps = (
        Step("env", "Environment", commands=(Command(("a",)),)),
        Step("torch", "torch", needs=("env",), commands=(Command(("a",)),) * 2, memory_bytes=2 << 30),
        Step("ops", "ops from source", needs=("env", "torch"), after=("env",), memory_bytes=900 << 20),
    )
    summary = {
        "target": "cpu", "compilers": {"g++": "12.2.0", "cmake": "3.31"}, "abi": 0, "python": "3.12",
        "jobs": {"jobs": 2, "reason": "2 cores, 24 GiB"}, "arch": ["pvc", "bmg"], "nothing": None,
        "with_words": {"one": 1, "more": [{"jobs": 3, "reason": ""}]},
    }  # fmt: skip
    plan = Plan("quickstart", "/a folder/ws", "ab" * 32, steps, {}, summary=summary)
    states = {"env": "done", "torch": ("stale", "the pin changed"), "else": ("", "")}
    obstacles = (
        XpuBuildError("what happened", why="why", fix="what to do", commands=["command one", "command two"]),
        NoXpuError("another"),
    )
    guesses = {
        "torch": Estimate(3000.0, 5_000_000, 0, "an earlier build"),
        "ops": Estimate(None, None, 70_000, ""),
    }
    known = {"torch": Estimate(30.0, 0, 1, "a guess")}
    cases: tuple[tuple[Any, Any, Any], ...] = ((states, obstacles, guesses), ({}, (), known), ({}, (), {}))
    texts: list[str] = []
    for state, stops, guess in cases:
        stream = io.StringIO()
        console.show(plan_view(plan, state, stops, guess), stream, {})
        texts.append(f"==== {len(texts) + 1}\n{stream.getvalue()}")
    return "".join(texts)


#: The name of the file -> the text in it.
TEXTS: dict[str, Callable[[], str]] = {
    "plan": _plan,
    "run-lines": lambda: _lines(Level.NORMAL),
    "run-lines-quiet": lambda: _lines(Level.QUIET),
    "run-lines-verbose-colour": lambda: _lines(Level.VERBOSE, color=True),
    "run-github": lambda: _lines(Level.NORMAL, github=True),
    "run-github-quiet": lambda: _lines(Level.QUIET, github=True),
    "run-picture": lambda: _pictures(80, (24, 9, 4), unicode=True),
    "run-picture-wide": lambda: _pictures(120, (24,), unicode=False),
    "run-picture-narrow": lambda: _pictures(40, (12,), unicode=True),
    "run-picture-styles": _styles,
}

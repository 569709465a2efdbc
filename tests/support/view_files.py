"""What a person reads of five documents, whole: tests/data/views.

Doctor's report, verify's and status's are varied from their schemas (``varied``); the plan and the events of
a run are written down here. ``make regen`` rewrites the files; a test compares.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence

from support.data_files import DATA
from support.varied import Varied
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
from xpubuild.engine.forecast import Estimate
from xpubuild.engine.model import Command, Plan, Step
from xpubuild.errors import NoXpuError, XpuBuildError
from xpubuild.ui import console
from xpubuild.ui.diagnosis_views import doctor_text
from xpubuild.ui.parts import Part
from xpubuild.ui.run_views import plan_view, verify_view
from xpubuild.ui.sinks import PlainSink
from xpubuild.ui.terminal import Terminal
from xpubuild.ui.views import status_view
from xpubuild.ui.wording import Level

FOLDER = DATA / "views"
T0 = 1_700_000_000.0
#: The same text in every time zone.
_MOMENT = time.mktime((2026, 1, 2, 3, 4, 5, 0, 0, -1))
_STARTED = tuple(_MOMENT + seconds for seconds in (0, 30, 4000, 4100))


def shown(parts: Sequence[Part]) -> str:
    stream = io.StringIO()
    console.show(parts, stream, {})
    return stream.getvalue()


def pipe() -> Terminal:
    return Terminal(io.StringIO(), live=False, color=False, unicode=True)


def _doctor() -> str:
    given = {"checks[].detail": ("a detail", "two\nlines"), "checks[].docs": ("docs/a-page.md", "")}
    return doctor_text(Varied("doctor", 0, given).document, pipe())


def _verify() -> str:
    device = {"device": ({"type": "xpu", "name": "a GPU"},)}
    return shown(verify_view(Varied("verify", 0, device).document))


def _status() -> str:
    held = {"pid": 7777, "command": "one command", "host": "h", "since": "now"}
    given = {"locked_by": (held,), "runs[].started": _STARTED, "steps[].started": _STARTED}
    return shown(status_view(Varied("status", 0, given).document))


def _plan() -> str:
    steps = (
        Step("env", "Environment", commands=(Command(("a",)),)),
        Step("torch", "torch", needs=("env",), commands=(Command(("a",)),) * 2, memory_bytes=2 << 30),
        Step("ops", "ops from source", needs=("env", "torch"), after=("env",), memory_bytes=900 << 20),
    )
    summary = {
        "target": "cpu", "compilers": {"g++": "12.2.0", "cmake": "3.31"}, "cxx11_abi": 0, "python": "3.12",
        "jobs": {"jobs": 2, "reason": "2 cores, 24 GiB"}, "arch": ["pvc", "bmg"], "nothing": None,
    }  # fmt: skip
    plan = Plan("quickstart", "/a folder/ws", "ab" * 32, steps, {}, summary=summary)
    obstacles = (
        XpuBuildError("what happened", why="why", fix="what to do", commands=["command one", "command two"]),
        NoXpuError("another"),
    )
    guesses = {
        "torch": Estimate(3000.0, 5_000_000, 0, "an earlier build"),
        "ops": Estimate(None, None, 70_000, ""),
    }
    return shown(plan_view(plan, {"env": "done", "torch": "stale: the pin changed"}, obstacles, guesses))


def _started(after_s: float, step: str, reason: str = "") -> StepStarted:
    return StepStarted(T0 + after_s, step, f"Title of {step}", f"/a folder/logs/{step}.log", reason)


_TITLES = tuple((name, f"Title of {name}") for name in ("env", "src", "torch", "ops"))
#: A run that fails.
RUN: tuple[Event, ...] = (
    RunStarted(T0, "2.13", "/a folder/ws", _TITLES, ("env",)),
    StepFinished(T0, "env", "Title of env", "up-to-date", 0.0),
    _started(1, "src"),
    StepProgress(T0 + 14, "src", 0, 0, "", "checking out"),
    StepOutput(T0 + 15, "src", "\x1b[31mReceiving\x1b[0m objects: 100% (200/200)"),
    StepFinished(T0 + 20, "src", "Title of src", "done", 19.0, 1 << 30),
    _started(20, "torch", "its inputs changed"),
    _started(21, "ops", "not run here before"),
    Notice(T0 + 23, "warning", "no flash attention\nand a second line", "torch"),
    StepProgress(T0 + 60, "torch", 345, 1380, "edges", "compiling Reduce.cpp"),
    RunForecast(T0 + 61, 2400, (("torch", 2400),), ("ops",)),
    StepFinished(T0 + 65, "torch", "Title of torch", "failed", 44.0, 0, "g++ exited with code 1"),
    StepFinished(T0 + 66, "ops", "Title of ops", "cancelled", 46.0),
    RunFinished(T0 + 70, "failed", 70.0),
)  # fmt: skip


def _run_lines() -> str:
    terminal, now = pipe(), [T0]
    sink = PlainSink(terminal, Level.NORMAL, lambda: now[0])
    for event in RUN:
        now[0] = event.time
        sink.tick()
        sink.emit(event)
    sink.close()
    return terminal.stream.getvalue()  # type: ignore[attr-defined, no-any-return]


VIEWS: dict[str, Callable[[], str]] = {
    "doctor": _doctor,
    "plan": _plan,
    "run-lines": _run_lines,
    "status": _status,
    "verify": _verify,
}


if __name__ == "__main__":
    for name, text in VIEWS.items():
        (FOLDER / f"{name}.txt").write_text(text(), "utf-8")

"""Parts of what a person sees, by tables of inputs: numbers, terminals, events, pictures, verdicts."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from support.data_files import dumped, placed
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
from xpubuild.errors import UsageError, XpuBuildError
from xpubuild.ui import (
    answer_view,
    console,
    github,
    invocation,
    plain_parts,
    sinks,
    terminal,
    wheel_rows,
    wording,
)
from xpubuild.ui import format as numbers
from xpubuild.ui.jsonl import JsonLinesSink
from xpubuild.ui.level import Level, matters
from xpubuild.ui.level import shown as is_shown
from xpubuild.ui.live import RichSink
from xpubuild.ui.live_rows import Row, choose_rows
from xpubuild.ui.live_state import RunView, StepView
from xpubuild.ui.parts import Column, Commands, Facts, Part, Sentences, TableBuilder
from xpubuild.ui.report import pictures, words
from xpubuild.ui.report.axis import Axis
from xpubuild.ui.terminal import Terminal
from xpubuild.ui.verify_view import CheckPrinter

_SECONDS = (
    -1, 0, 0.04, 0.06, 0.4, 1, 1.4, 1.6, 9.4, 9.94, 9.95, 9.96, 10, 12.4, 12.6, 54, 58, 59, 59.4, 59.5, 60,
    61, 89, 91, 125, 599, 600, 601, 899, 3299, 3599.4, 3599.5, 3600, 3661, 5000, 7199, 17_000, 18_000, 20_000,
    90_000,
)  # fmt: skip
_COUNTS = (
    -5, 0, 1, 999, 999.4, 999.5, 1000, 1023, 1023.4, 1023.6, 1024, 9_949, 9_951, 99_449, 99_500, 999_499,
    10**6, 1_048_575, 10**9, 1 << 30, 10**12, 1 << 40, 10**15, 1 << 50,
)  # fmt: skip
_RATES = (-1, 0, 0.001, 0.1, 0.1658, 0.166, 0.4, 0.999, 1, 1.04, 9.9, 99.4, 99.5, 1000, 123_456)


def _numbers() -> str:
    return dumped({
        "duration, roughly, clock": {
            value: [show(value) for show in (numbers.duration, numbers.roughly, numbers.clock)]
            for value in _SECONDS
        },
        "size, memory": {value: [numbers.size(value), numbers.memory(value)] for value in _COUNTS},
        "rate": {value: [numbers.rate(value, unit) for unit in ("edges", "bytes")] for value in _RATES},
        "counted": [
            [done, total, numbers.counted(done, total, "edges"), numbers.counted(done, total, "bytes"),
             numbers.counted(done, total, "")]
            for done, total in ((0, 0), (1, 0), (0, 1), (12, 345), (1, -1), (2_000, 3_000_000))
        ],
        "plural": [numbers.plural(count, "step") for count in (0, 1, 2)],
    })  # fmt: skip


class _Stream(io.StringIO):
    """A stream that says it is a terminal of some encoding, or refuses to be written to."""

    def __init__(self, encoding: str | None = "utf-8", *, tty: bool = True, fails: int = 0) -> None:
        super().__init__()
        self._encoding, self._tty, self._fails = encoding, tty, fails

    @property
    def encoding(self) -> Any:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._tty

    def write(self, text: str) -> int:
        if self._fails:
            raise OSError(self._fails, os.strerror(self._fails))
        return super().write(text)


_ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {}, {"TERM": "xterm"}, {"TERM": "dumb"}, {"TERM": "unknown"}, {"TERM": "linux"}, {"TERM": "vt100"},
    {"TERM": "vt220"}, {"TERM": "ansi"}, {"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "xterm", "LANG": "C"},
    {"FORCE_COLOR": "yes"}, {"FORCE_COLOR": "No"}, {"FORCE_COLOR": " false "},
    {"TERM": "xterm", "CI": "true"},
    {"TERM": "xterm", "CI": "0"}, {"GITHUB_ACTIONS": "true"}, {"GITHUB_ACTIONS": "1"},
    {"TERM": "xterm", "GITHUB_ACTIONS": "true", "CI": "1"}, {"LC_CTYPE": "de_DE.utf8", "LANG": "C"},
    {"LC_ALL": "C", "LC_CTYPE": "C.UTF-8"},
    {"TERM": "xterm", "NO_COLOR": "", "LC_ALL": "", "LANG": "x.UTF-8"},
)  # fmt: skip
_TEXTS = (
    "a\tb\r\nc\rd", "\x1b[31mred\x1b[0m \x1b]0;title\x07t \x1b]8;;u\x1b\\l \x1b(Bz \x1b7", "\x07bell\x7f\x9b",
    "\x1b", "\x1b[1", "zero\u200bwidth \u202e", "",
)  # fmt: skip


def _terminals() -> str:
    told: dict[str, Any] = {
        "streams": [],
        "texts": {text: [terminal.clean(text), terminal.one_line(text)] for text in _TEXTS},
    }
    for env in _ENVIRONMENTS:
        both = {}
        for tty in (True, False):
            stream = _Stream(tty=tty)
            found = Terminal.detect(stream, env)
            names = [name for name in ("live", "color", "unicode") if getattr(found, name)]
            both["terminal" if tty else "pipe"] = [
                *names, sinks.choose(found, env), type(sinks.make_sink(None, stream, env).inner).__name__,
            ]  # fmt: skip
        told["streams"].append([env, both])
    told["encodings"] = {
        str(name): Terminal.detect(_Stream(name), {"TERM": "xterm"}).unicode
        for name in ("utf-8", "UTF8", "utf_8", "utf-8-sig", "latin-1", "ascii", None)
    }
    told["printable"] = [
        Terminal(_Stream(encoding), live=live, color=False, unicode=unicode).printable("\u00e9\u2713")
        for encoding, live, unicode in (
            ("utf-8", True, True), ("utf-8", True, False), ("utf-8", False, False), ("latin-1", False, False),
            (None, False, False),
        )
    ]  # fmt: skip
    coloured = Terminal(_Stream(), live=True, color=True, unicode=True)
    plain = Terminal(_Stream(), live=True, color=False, unicode=True)
    told["painted"] = [
        coded(text)
        for text in (
            coloured.paint("t", "bold", "red"), coloured.paint("t"), coloured.paint("", "red"),
            plain.paint("t", "red"),
            *(coloured.paint(style, style) for style in ("red", "green", "yellow", "cyan", "bold", "dim")),
        )
    ]  # fmt: skip
    told["flags"] = {
        value: terminal.flag({"A": value}, "A") for value in ("", "0", "False", "NO", " no ", "x", "1")
    }
    told["no flag"] = terminal.flag({}, "A")
    with (
        mock.patch("os.get_terminal_size", return_value=os.terminal_size((0, 0))),
        tempfile.TemporaryFile("w") as file,
    ):
        told["no size"] = list(Terminal(file, live=False, color=False, unicode=True).size())
    with mock.patch.dict(os.environ, {"COLUMNS": "33", "LINES": "7"}):
        told["size of variables"] = [
            list(item.size()) for item in (coloured, Terminal(_Stream(), False, False, False))
        ]
    told["gone"] = _gone()
    told["written"] = _written()
    return dumped(told)


def _gone() -> dict[str, Any]:
    told: dict[str, Any] = {"in memory": terminal.is_gone(io.StringIO())}
    closed = io.StringIO()
    closed.close()
    told["closed"] = [terminal.is_gone(closed), terminal.is_terminal(closed)]
    told["closed"].append(Terminal.detect(closed, {"TERM": "xterm"}).try_write("x"))
    terminal.disconnect(closed)
    read, write = os.pipe()
    with os.fdopen(write, "w") as pipe:
        told["a pipe"] = terminal.is_gone(pipe)
        os.close(read)
        pipe.write("x")
        told["a pipe without a reader"] = terminal.is_gone(pipe)
        terminal.disconnect(pipe)
        told["disconnected"] = [Path(f"/proc/self/fd/{write}").readlink().name, terminal.is_gone(pipe)]
    told["numbers"] = sorted(errno.errorcode[number] for number in terminal.READER_GONE)
    return told


def _written() -> dict[str, Any]:
    """Return what becomes of a result whose stream refuses it, by the reason."""
    told: dict[str, Any] = {}
    for number in (errno.EPIPE, errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.ENXIO):
        stream = _Stream(fails=number)
        name = errno.errorcode[number]
        try:
            console.write_out("x", stream)
            told[name] = "nothing"
        except XpuBuildError as error:
            told[name] = {key: value for key, value in error.to_json().items() if value}
        told[name] = [told[name], Terminal.detect(stream, {}).try_write("x")]
    return told


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
                    inner = sinks.make_sink(kind, _Stream(tty=tty), {"TERM": "xterm"}, **words_).inner
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


def _row(release: str, builds: str, runs: str, **more: Any) -> dict[str, Any]:
    reasons = more.pop("reasons", ())
    verdict = {
        "builds": builds, "runs": runs, "oneapi": more.pop("oneapi", "2025.1"),
        "toolkit": more.pop("toolkit", None),
        "loses": [
            {"feature": name, "certain": sure, "because": why} for name, sure, why in more.pop("loses", ())
        ],
        "reasons": [
            {"concern": concern, "answer": answer, "constraint": constraint, "wanted": wanted, "found": found}
            for concern, answer, constraint, wanted, found in reasons
        ],
    }  # fmt: skip
    return {"release": release, "recipe": f"r{release}", "verdict": verdict, **more}


_NO = ("builds", "no", "oneapi", ">=2025", "oneAPI 2024 is here")
_GCC = ("builds", "no", "gcc", "", "no GCC is here")
_OPEN = ("builds", "unknown", "gcc", "", "the GCC is not known")
_NOTE = ("note", "yes", "x", "", "a note")
_PATCHES = {"text": "with patches", "patches": ["p1", "p2"]}
_VERDICTS: dict[str, tuple[dict[str, Any], ...]] = {
    "none": (),
    "builds and runs": (_row("3", "yes", "yes"), _row("2", "no", "no", reasons=(_NO,))),
    "builds, not known to run": (_row("3", "yes", "unknown"),),
    "builds, runs an older one": (_row("3", "yes", "no"), _row("2", "yes", "yes")),
    "builds, runs none": (_row("3", "yes", "no"),),
    "newer without a commit": (
        _row("5", "yes", "yes", pinned=False), _row("4", "yes", "yes", pinned=False), _row("3", "yes", "yes"),
    ),
    "one newer": (_row("4", "yes", "yes", pinned=False), _row("3", "yes", "yes", pinned=True)),
    "only without a commit": (_row("4", "yes", "yes", pinned=False),),
    "loses": (_row("3", "yes", "yes", loses=(("flash", True, "the GCC"), ("more", False, ""))),),
    "the driver runs a newer one": (
        _row("4", "no", "yes", reasons=(_NO,), toolkit=_PATCHES), _row("3", "yes", "yes"),
    ),
    "and without patches": (
        _row("4", "no", "yes", reasons=(_NO,), oneapi=""), _row("3", "yes", "yes", toolkit=_PATCHES),
    ),
    "perhaps": (
        _row("3", "unknown", "yes", reasons=(_OPEN, _NOTE)), _row("2", "unknown", "yes", reasons=(_OPEN,)),
    ),
    "perhaps one": (_row("3", "unknown", "yes"),),
    "no": (_row("3", "no", "no", reasons=(_GCC, _NO, _NOTE)), _row("2", "no", "no", reasons=(_GCC,))),
    "no oneAPI": (_row("3", "no", "no", reasons=(_NO,)), _row("2", "no", "no", reasons=(_NO,))),
    "no, for different reasons": (
        _row("3", "no", "no", reasons=(_NO,)), _row("2", "no", "no", reasons=(_GCC,)),
    ),
}  # fmt: skip
_SITUATION = {
    "target": "xpu", "gpu": "max", "oneapi": [], "python": ["3.12", "3.13"], "arch": [], "gcc": None,
    "versions": {"triton": "3.5"}, "cmake": "", "cxx11_abi": 0, "odd": "x",
}  # fmt: skip


def _answers() -> str:
    texts: list[str] = []
    for name, rows in _VERDICTS.items():
        stream = io.StringIO()
        first, host, table, last = answer_view.answer_view(_SITUATION, rows)
        console.show((first, table) if texts else (first, host, table, last), stream, {})
        texts.append(f"==== {name}\n{stream.getvalue()}")
        of_cpu = answer_view.answer_view({**_SITUATION, "target": "cpu"}, rows)[0]
        texts += ["without the second line for the CPU\n"] if of_cpu != first else []
    return "".join(texts)


def _tables() -> str:
    """Return what is left out, wheels as rows, lines of checks, figures, how a program was called."""
    builder = TableBuilder(["a", Column("b", right=True)])
    builder.add("\u4e2d\u6587", 1)
    builder.add("e\u0301", None)
    builder.add("", "long\nline")
    parts: list[Part] = [
        Sentences(()),
        Commands(()),
        Facts(()),
        builder.build("T"),
        Commands(("one\ntwo",), "C"),
        Facts((("n", "v"),), "F"),
    ]
    stream = io.StringIO()
    console.show(parts, stream, {})
    wheels: list[Mapping[str, Any]] = [
        {
            "name": "a",
            "version": "1",
            "size_bytes": 5,
            "sha256": "0123456789abcdef",
            "abi": 1,
            "findings": [],
        },
        {"file": "f", "size": 2000, "abi": {"verdict": "new"}, "findings": [{"severity": "warning"}, {}]},
        {"wheel": "w", "size": "x", "abi": {"abi": 0}, "findings": "text"},
        {"abi": {}, "findings": [{"severity": "warning"}] * 2},
    ]
    lines = io.StringIO()
    console.show([wheel_rows.wheel_table(wheels)], lines, {})
    told = {
        "parts": stream.getvalue().splitlines(),
        "wheels": lines.getvalue().splitlines(),
        "cells": [plain_parts.cells(text) for text in ("abc", "\u4e2d", "e\u0301", "\uff21")],
        "folded": plain_parts.folded("one two three " * 9, 10, first="- ", later="  ..."),
        "progress": [_progress(quiet=quiet) for quiet in (False, True)],
        "looks": {name: [words.look(name), words.sign(name)] for name in _LOOKS},
        "took": [words.took(None), words.took(3.0), words.moment(None), words.moment(1e99)],
        "figures": dict(words.figures(_FIGURES)) | {"of an audit": dict(words.figures({"audit": [1]}))},
        "warned": _warned(),
        "called": _called(),
    }
    return dumped(told)


_LOOKS = (
    "done", "complete", "pass", "passed", "ok", "failed", "fail", "crash", "crashed", "timeout", "timed out",
    "error", "interrupted", "partial", "cancelled", "known failure", "warning", "running", "skip", "skipped",
    "to do", "not run", "odd",
)  # fmt: skip
_FIGURES = {
    "a_b": "text", "no": False, "empty": [], "thirteen": list(range(13)), "twelve": list(range(12)),
    "lists": [[1], [2]], "audit": {"name": "a", "abi": None, "findings": [1]}, "of": {"a": {"x": 1}},
}  # fmt: skip


def _progress(*, quiet: bool) -> list[str]:
    stream = io.StringIO()
    printer = CheckPrinter(total=2, quiet=quiet, stream=stream)
    printer.progress("a.check", "half\nof it")
    return stream.getvalue().splitlines()


def _warned() -> list[Any]:
    told = []
    for env, argv in (
        ({}, ["x"]),
        ({"XPUBUILD_LOG_FORMAT": "jsonl"}, ["x"]),
        ({}, ["x", "--log-format=jsonl"]),
        ({}, ["jsonl"]),
    ):
        stream = io.StringIO()
        with (
            mock.patch.dict(os.environ, env),
            mock.patch.object(sys, "argv", argv),
            mock.patch.object(sys, "stderr", stream),
            mock.patch("time.time", return_value=5.0),
        ):
            console.warn("take\x1b[31m care")
        told.append(stream.getvalue())
    return told


def _called() -> dict[str, Any]:
    told = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        tool = folder / "b in" / "tool"
        tool.parent.mkdir()
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
        before = Path.cwd()
        for name, cwd, path, argv0 in (
            ("on PATH", folder, str(tool.parent), str(tool)),
            ("another of PATH", folder, "/nowhere", str(tool)),
            ("beside", tool.parent, "/nowhere", "tool"), ("elsewhere", Path("/"), "/nowhere", str(tool)),
            ("above", tool.parent, "/nowhere", str(folder / "x")), ("a module", folder, "", "/a/__main__.py"),
        ):  # fmt: skip
            os.chdir(cwd)
            try:
                with mock.patch.dict(os.environ, {"PATH": path}), mock.patch.object(sys, "argv", [argv0]):
                    found = [invocation.how_called(), invocation.how_called(argv0), invocation.program()]
            finally:
                os.chdir(before)
            places = {str(folder): "{folder}", str(folder)[1:]: "{folder from /}", sys.executable: "{python}"}
            told[name] = placed(found, places)
    return told


def _edges(spans: Sequence[tuple[float, float, int]]) -> list[pictures.Placed]:
    endings = (".o", ".so.1", ".a", ".obj", ".txt")
    return [pictures.Placed(f"e{at}{endings[at % 5]}", *span) for at, span in enumerate(spans)]


def _pictures() -> str:
    window = pictures.Window(10.0, 20.0)
    some = _edges([(10, 12, 0), (11, 11.001, 1), (12, 25, 0), (5, 10.05, 2), (15, 15.04, 1)])
    many = _edges([(10 + at / 10, 11 + at / 10, at) for at in range(50)])
    axis = Axis([(0, 10), (5, 12), (12, 13), (13.2, 20), (1000, 1010), (1010.3, 1011)])
    commands = [
        {"started": 11.0, "duration_s": 4.0, "memory": [[0.0, 5], [2.0, 9]]},
        {"started": 18.0, "duration_s": 1.0, "memory": []},
    ]
    drawn = pictures.lane_picture(many, window)
    names = ("a.o", "a.obj", "d.o/a.so.2", "a.a", "a.txt", "a.os")
    nothing = [{"started": 1.0, "duration_s": 1.0, "memory": [[0.0, 0]]}]
    jobs = pictures.jobs_picture(some, window)
    return dumped({
        "window": [window.x(at) for at in (0, 10, 15, 20, 30)] + [pictures.Window(5, 5).x(5)],
        "kinds": {name: pictures.kind_of(name) for name in names},
        "lanes": pictures.lane_picture(some, window),
        "many lanes": [drawn["height"], len(drawn["paths"]), len(drawn["named"])],
        "no lanes": pictures.lane_picture([], window),
        "jobs": re.sub(r"(?:H[\d.]+V31\.0){3,}", " ... ", jobs["d"]),
        "most jobs": round(jobs["most"], 6),
        "no jobs": pictures.jobs_picture(some, pictures.Window(5, 5))["most"],
        "memory": [pictures.memory_picture(commands, window), pictures.memory_picture([], window)],
        "no memory": pictures.memory_picture(nothing, window),
        "axis": [round(axis.at(at), 3) for at in (-1, 0, 6, 13.1, 500, 1000, 1010.5, 2000)],
        "pauses": [[round(pause.at, 3), pause.seconds] for pause in axis.pauses],
        "ran": round(axis.ran_s, 3),
    })  # fmt: skip


#: The name of the file -> the text in it.
TEXTS: dict[str, Callable[[], str]] = {
    "parts-answers": _answers,
    "parts-events": _events,
    "parts-live": _live,
    "parts-numbers": _numbers,
    "parts-pictures": _pictures,
    "parts-rows": _rows,
    "parts-tables": _tables,
    "parts-terminals": _terminals,
}

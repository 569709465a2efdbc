"""Parts of what a person sees, by tables of inputs: numbers, terminals, tables, pictures."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from support.data_files import dumped, placed
from support.shown_runs import coded
from xpubuild.errors import XpuBuildError
from xpubuild.ui import (
    console,
    invocation,
    plain_parts,
    sinks,
    terminal,
    wheel_rows,
)
from xpubuild.ui import format as numbers
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


class Stream(io.StringIO):
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
            stream = Stream(tty=tty)
            found = Terminal.detect(stream, env)
            names = [name for name in ("live", "color", "unicode") if getattr(found, name)]
            both["terminal" if tty else "pipe"] = [
                *names, sinks.choose(found, env), type(sinks.make_sink(None, stream, env).inner).__name__,
            ]  # fmt: skip
        told["streams"].append([env, both])
    told["encodings"] = {
        str(name): Terminal.detect(Stream(name), {"TERM": "xterm"}).unicode
        for name in ("utf-8", "UTF8", "utf_8", "utf-8-sig", "latin-1", "ascii", None)
    }
    told["printable"] = [
        Terminal(Stream(encoding), live=live, color=False, unicode=unicode).printable("\u00e9\u2713")
        for encoding, live, unicode in (
            ("utf-8", True, True), ("utf-8", True, False), ("utf-8", False, False), ("latin-1", False, False),
            (None, False, False),
        )
    ]  # fmt: skip
    coloured = Terminal(Stream(), live=True, color=True, unicode=True)
    plain = Terminal(Stream(), live=True, color=False, unicode=True)
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
            list(item.size()) for item in (coloured, Terminal(Stream(), False, False, False))
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
        stream = Stream(fails=number)
        name = errno.errorcode[number]
        try:
            console.write_out("x", stream)
            told[name] = "nothing"
        except XpuBuildError as error:
            told[name] = {key: value for key, value in error.to_json().items() if value}
        told[name] = [told[name], Terminal.detect(stream, {}).try_write("x")]
    return told


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
    "parts-numbers": _numbers,
    "parts-pictures": _pictures,
    "parts-tables": _tables,
    "parts-terminals": _terminals,
}

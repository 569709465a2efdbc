"""The live picture on a real pseudo-terminal; a small model of a screen works out what a person would see."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

#: What rich writes before each picture.
_FRAME = "\r\x1b[2K"
_SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|([^\x1b])", re.DOTALL)

_RUN = """
import os, sys, threading, time
from xpubuild.engine.events import *
from xpubuild.ui.sinks import make_sink

def build(sink, step, total, fail=False):
    log = "/ws/logs/" + step + ".log"
    sink.emit(StepStarted(time.time(), step, "Build " + step, log, "not run here before"))
    for done in range(1, total + 1):
        now = time.time()
        sink.emit(StepOutput(now, step, "\\x1b[31m[%d/%d]\\x1b[0m" % (done, total)))
        detail = "compiling a%d.cpp" % done
        sink.emit(StepProgress(now, step, done, total, "edges", detail))
        time.sleep(0.02)
    status = "failed" if fail else "done"
    sink.emit(StepFinished(time.time(), step, "Build " + step, status, 1.0, 0, "status 1" if fail else ""))

def main(kind, fail, quiet=False, steps=("env", "ops", "vision"), total=30):
    with make_sink(kind, sys.stderr, os.environ, quiet=quiet) as sink:
        titles = tuple((step, "Build " + step) for step in steps)
        sink.emit(RunStarted(time.time(), "quickstart", "/über space/ws", titles, ()))
        sink.emit(StepFinished(time.time(), "env", "Build env", "up-to-date", 0.0))
        threads = [threading.Thread(target=build, args=(sink, "ops", total, fail), daemon=True),
                   threading.Thread(target=build, args=(sink, "vision", total // 2), daemon=True)]
        for thread in threads:
            thread.start()
        sink.emit(Notice(time.time(), "warning", "watch out", "ops"))
        for thread in threads:
            while thread.is_alive():
                thread.join(0.05)
        sink.emit(RunFinished(time.time(), "failed" if fail else "ok", 2.0))
    print("the result")

try:
    {call}
except KeyboardInterrupt:
    print("interrupted")
    sys.exit(130)
"""


@dataclass
class Screen:
    """Enough of a terminal for what is written here: CR, LF, cursor up, clearing, wrapping, scrolling."""

    columns: int = 80
    rows: int = 24
    lines: list[list[str]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    cursor_visible: bool = True
    top: int = 0

    def feed(self, text: str) -> None:
        for private, numbers, command, character in _SEQUENCE.findall(text):
            if character:
                self._put(character)
            else:
                self._control(private, numbers, command)

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self._down()
        elif character >= " ":
            if self.column == self.columns:
                self.column = 0
                self._down()
            line = self.lines[self.row]
            line += [" "] * (self.column + 1 - len(line))
            line[self.column] = character
            self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])
        self.top = max(self.top, self.row - self.rows + 1)

    def _control(self, private: str, numbers: str, command: str) -> None:
        if private:
            if numbers == "25":
                self.cursor_visible = command == "h"
        elif command == "A":
            # What has scrolled away cannot be reached.
            self.row = max(self.top, self.row - int(numbers or 1))
        elif command in "KJ":
            del self.lines[self.row][self.column :]
            if command == "J":
                del self.lines[self.row + 1 :]
        else:
            assert command == "m", f"a sequence this model does not know: {command}"

    def text(self) -> list[str]:
        """Return all lines, scroll-back included, without blanks at their ends."""
        found = ["".join(line).rstrip() for line in self.lines]
        while found and not found[-1]:
            found.pop()
        return found


@dataclass
class Session:
    """A program whose terminal is a pseudo-terminal."""

    master: int
    process: subprocess.Popen[bytes]
    output: str = ""

    def read(self, frames: int = 0, deadline_s: float = 30.0) -> str:
        """Read until the program ends, or until so many more pictures; return all it wrote so far."""
        end = time.monotonic() + deadline_s
        wanted = self.output.count(_FRAME) + frames
        while time.monotonic() < end and not (frames and self.output.count(_FRAME) >= wanted):
            if not select.select([self.master], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            self.output += data.decode()
        assert self.output.count(_FRAME) >= wanted, self.output[-1000:]
        return self.output

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@pytest.fixture
def start(request: pytest.FixtureRequest):
    """Start programs on a pseudo-terminal; what still runs at the end is killed."""
    sessions: list[Session] = []

    def begin(call: str, env: Mapping[str, str], columns: int = 80, rows: int = 24) -> Session:
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # The terminal must be the program's own for Ctrl-C to reach it.
        own = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
        base = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI", "LC_ALL")}
        process = subprocess.Popen(
            [sys.executable, "-c", own + _RUN.replace("{call}", call)],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**base, "LANG": "C.UTF-8", "PYTHONIOENCODING": "utf-8", **env},
        )  # fmt: skip
        os.close(slave)
        sessions.append(Session(master, process))
        return sessions[-1]

    yield begin
    for session in sessions:
        if session.process.poll() is None:
            session.process.kill()
        session.process.wait()
        os.close(session.master)


XTERM = {"TERM": "xterm-256color"}


def seen(output: str, columns: int = 80, rows: int = 24) -> Screen:
    screen = Screen(columns, rows)
    screen.feed(output)
    return screen


def test_a_run_leaves_one_clean_picture(start) -> None:
    session = start("main(None, False)", XTERM)
    screen = seen(session.read())
    assert session.process.wait() == 0
    assert screen.text() == [
        "quickstart  /über space/ws",
        "  ✓ env: Build env, up to date",
        "ops: warning: watch out",
        "  ✓ vision: Build vision, 1.0 s",
        "  ✓ ops: Build ops, 1.0 s",
        "finished in 2.0 s",
        "the result",
    ]
    assert screen.cursor_visible
    assert "━" in session.output


@pytest.mark.parametrize("how", ["ctrl-c", "SIGINT"])
def test_the_terminal_is_sane_after_an_interrupt(start, how: str) -> None:
    session = start("main(None, False, total=3000)", XTERM)
    before = termios.tcgetattr(session.master)
    session.read(frames=5)
    if how == "ctrl-c":
        os.write(session.master, b"\x03")
    else:
        session.process.send_signal(signal.SIGINT)
    screen = seen(session.read())
    assert session.process.wait() == 130
    assert screen.cursor_visible
    assert session.output.rfind("\x1b[?25h") > session.output.rfind("\x1b[?25l")
    assert termios.tcgetattr(session.master) == before
    text = screen.text()
    assert text[-1] == "interrupted"
    assert text[-2].startswith("interrupted after")
    assert [line[:9] for line in text if "Build ops" in line] == ["  ■ ops: "]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_cursor_is_visible_even_when_nothing_can_be_put_back(start, number: int) -> None:
    session = start("main(None, False, total=3000)", XTERM)
    session.read(frames=5)
    session.process.send_signal(number)
    time.sleep(0.2)
    screen = seen(session.read(deadline_s=0.5))
    assert screen.cursor_visible
    assert screen.column == 0


def test_a_window_that_changes_while_it_is_drawn(start) -> None:
    """A window that grows keeps one clean picture; one that shrinks gets lines that fit."""
    session = start("main(None, False, total=120)", XTERM, columns=60, rows=20)
    session.read(frames=3)
    session.resize(90, 30)
    session.read(frames=3)
    output = session.read()
    text = seen(output, 90, 30).text()
    assert sum("quickstart" in line for line in text) == 1
    assert text[-2:] == ["finished in 2.0 s", "the result"]
    session = start("main(None, False, total=120)", XTERM, columns=90, rows=20)
    before = len(session.read(frames=3))
    session.resize(40, 20)
    after = session.read()[before:]
    frames = after.split(_FRAME)[3:]
    assert frames
    plain = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for frame in frames for line in frame.split("\r\n")]
    assert max(len(line) for line in plain) < 40

"""One process of the target interpreter: started, watched, and its records read while it runs."""

from __future__ import annotations

import json
import shlex
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from xpubuild.engine.process import Cancel, ProcessResult, query, run
from xpubuild.errors import ToolchainError
from xpubuild.resources import suite_dir

_SEPARATOR = "\x1e"
_OUTPUT_LINES = 40
#: Importing torch from a cold network file system takes minutes at worst; a check's own deadline starts
#: later.
_START_S = 300.0
_HELLO_S = 60.0
#: A check may wait for a processor for so many times its own deadline.
_PATIENCE = 9
_OLDEST = (3, 9)
#: Event -> the fields that a record of it has beside its id.
_FIELDS = {
    "start": frozenset[str](),
    "progress": frozenset({"detail"}),
    "result": frozenset({"status", "duration_s", "detail", "metrics"}),
}


class Deadline(Cancel):
    """Cancels a process if the user does, or if the running check exceeds its deadline.

    Time that the process waited for a processor does not count.
    """

    def __init__(
        self, user: Cancel | None, clock: Callable[[], float] = time.monotonic,
        waited: Callable[[int], float] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._user, self._clock, self._waited = user, clock, waited or waited_s
        self.expired = False
        self.extend(_START_S)

    def extend(self, seconds: float, process: int = 0) -> None:
        """Start a new period; ``process`` is the number of the one that runs in it, 0 where it is unknown."""
        self._seconds, self._process = seconds, process
        self._end, self._before = self._clock() + seconds, self._waited(process)

    def __bool__(self) -> bool:
        if self._user:
            return True
        if not self.expired and self._clock() >= self._end:
            others = self._waited(self._process) - self._before
            self.expired = self._clock() >= self._end + min(others, _PATIENCE * self._seconds)
        return self.expired


def waited_s(process: int) -> float:
    """Return how long the first thread of a process was ready to run while others ran (proc(5): schedstat).

    0 where that is not known.
    """
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


@dataclass
class ChildEnd:
    """What is known of a process that ended: the check it was in, if any, and what it printed last."""

    running: str | None
    running_s: float
    timed_out: bool
    how: str
    output: tuple[str, ...]


@dataclass
class Child:
    """Runs checks by id in one process and passes on their records.

    ``on_record`` gets each record of ``suite/run.py`` with the lines printed since the one before.
    """

    python: Path
    device: str
    require: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log: IO[bytes]
    deadlines: Mapping[str, float]
    on_record: Callable[[dict[str, Any], tuple[str, ...]], None]
    cancel: Cancel | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    _output: deque[str] = field(default_factory=lambda: deque(maxlen=_OUTPUT_LINES))
    _running: str | None = None
    _since: float = 0.0

    def run(self, identifiers: Sequence[str]) -> ChildEnd:
        """Run the checks until the process ends, by itself or otherwise."""
        self._deadline = Deadline(self.cancel)
        self._running, self._since = None, time.monotonic()
        self._output.clear()
        required = [word for part in self.require for word in ("--require", part)]
        given = [word for name, value in self.options.items() for word in ("--option", f"{name}={value}")]
        argv = [str(self.python), str(suite_dir() / "run.py"), "--device", self.device, *required, *given]
        words = [*argv, "--", *identifiers]
        options: dict[str, Any] = {"log": self.log, "on_line": self._line, "cancel": self._deadline}
        result = run(words, env=self.env, cwd=self.cwd, **options)
        spent = round(time.monotonic() - self._since, 4)
        output = tuple(self._output)
        return ChildEnd(self._running, spent, self._deadline.expired, _describe(result), output)

    def _line(self, line: str) -> None:
        text, separator, rest = line.partition(_SEPARATOR)
        if text:
            self._output.append(text)
        record = self._known(rest) if separator else None
        if record is None:
            if separator:
                self._output.append(rest)
            return
        if record["event"] == "start":
            self._start(str(record["id"]), record.get("process"))
        elif record["event"] == "result":
            self._running = None
            self._deadline.extend(_START_S)
        self.on_record(record, tuple(self._output))
        if record["event"] == "result":
            self._output.clear()

    def _known(self, text: str) -> dict[str, Any] | None:
        """Return the record in a line; what the suite would not send is output."""
        record = _record(text)
        if record is None or record["event"] == "facts":
            return record
        fields = _FIELDS.get(record["event"])
        known = fields is not None and record.get("id") in self.deadlines and fields <= record.keys()
        return record if known else None

    def _start(self, identifier: str, process: object) -> None:
        self._running, self._since = identifier, time.monotonic()
        self._deadline.extend(self.deadlines[identifier], process if isinstance(process, int) else 0)


def _record(text: str) -> dict[str, Any] | None:
    """Return the record in a line; None for output that happens to contain the separator."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) and "event" in document else None


def _describe(result: ProcessResult) -> str:
    if result.returncode >= 0:
        return f"the interpreter exited with code {result.returncode} before the check ended"
    return f"the interpreter {result.describe()}"


def require_interpreter(
    python: Path, env: Mapping[str, str], cwd: Path, packages: Sequence[str] = ()
) -> None:
    """Make sure that ``python`` is a Python that can run the suite and has the given packages.

    Raises:
        ToolchainError: it is not there, cannot be started, is no Python, is too old, or lacks a package.
    """
    if not python.is_file():
        raise ToolchainError(
            f"there is no Python interpreter at {python}",
            why="verify runs its checks in the interpreter in which torch is installed",
            fix="select it with --python, or build the workspace first with 'xpubuild install'",
        )
    needs = [word for name in packages for word in ("--needs", name)]
    answer = query(
        [str(python), str(suite_dir() / "run.py"), "--hello", *needs], env=env, cwd=cwd, deadline_s=_HELLO_S
    )
    record = _record(answer.stdout.rpartition(_SEPARATOR)[2]) or {}
    version = tuple(record.get("version", ()))
    if version and version >= _OLDEST:
        _require_packages(python, record.get("missing") or ())
        return
    last = (answer.stderr.strip() or answer.stdout.strip()).splitlines()[-1:]
    why = (
        f"it is Python {'.'.join(map(str, version))}"
        if version
        else " ".join(["it is not a working Python:", *last])
    )
    raise ToolchainError(
        f"{python} cannot run the checks",
        why=why,
        fix=f"use --python to select a Python {'.'.join(map(str, _OLDEST))} or newer with torch installed",
        evidence={"status": answer.returncode, "timed_out": answer.timed_out},
    )


def _require_packages(python: Path, missing: Sequence[str]) -> None:
    if missing:
        raise ToolchainError(
            f"{python} lacks {', '.join(missing)}",
            why="PyTorch's operator database imports what its wheels do not require",
            fix="install it into the environment of the interpreter",
            commands=(shlex.join([str(python), "-m", "pip", "install", *missing]),),
        )

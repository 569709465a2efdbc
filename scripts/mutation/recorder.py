"""Copied into the environment of a mutation run's tests: a plug-in of pytest, and the start of each Python.

Its folder ``_mutants`` says what to do and takes what was seen: ``wanted.json`` the tests to run,
``results.jsonl`` a line for each phase of a test. While the map is recorded there are also ``coveragerc`` and
``include``, ``context`` (the test that runs now, for the processes it starts), ``fixtures.json``, and the
path of a folder that every user may write to, ``seen``. There lie ``data.*`` of coverage or ``seen.*`` of
Monitor, and ``launched.jsonl``: files started as programs, whose Python may have been told to start without
this (-S).

It is imported before pytest is: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

_STATE = Path(__file__).parent / "_mutants"
_SETTINGS = _STATE / "coveragerc"
_started: dict[str, str] = {}
_monitors: list[Monitor] = []


class Monitor:
    """The lines that ran, as sys.monitoring tells from Python 3.12 on.

    A line costs something once in each context, where a tracer pays each time it runs: tests take hardly
    longer. coverage.py cannot do this with contexts.
    """

    _TOOL = 3  # none of the numbers that Python reserves for debuggers, coverage, profilers

    def __init__(self, context: str) -> None:
        self._context = context
        self._prefixes = tuple((_STATE / "include").read_text("utf-8").split("\0"))
        self._seen: dict[str, set[int]] = defaultdict(set)
        self._exit = os._exit

    def start(self) -> None:
        """Watch from now on; what was seen is written when the process ends, unless it is killed."""
        watch: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        events = watch.events
        watch.use_tool_id(self._TOOL, "mutants")
        watch.register_callback(self._TOOL, events.PY_START, self._code)
        watch.register_callback(self._TOOL, events.LINE, self._line)
        watch.set_events(self._TOOL, events.PY_START)
        self._watch, self._done = watch, watch.DISABLE
        atexit.register(self.write)
        os.register_at_fork(after_in_child=self._seen.clear)
        os._exit = self._leave  # type: ignore[assignment]
        with contextlib.suppress(ValueError):
            if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._end)

    def _code(self, code: CodeType, _: int) -> object:
        if code.co_filename.startswith(self._prefixes):
            self._watch.set_local_events(self._TOOL, code, self._watch.events.LINE)
        return self._done

    def _line(self, code: CodeType, line: int) -> object:
        self._seen[code.co_filename].add(line)
        return self._done

    def _leave(self, status: int) -> None:
        self.write()
        self._exit(status)

    def _end(self, number: int, _: object) -> None:
        self.write()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def switch(self, context: str) -> None:
        """Count what runs from here on for another context."""
        self.write()
        self._context = context
        self._watch.restart_events()

    def write(self) -> None:
        """Note what this context ran, and start again."""
        if self._seen:
            files = {name: sorted(lines) for name, lines in list(self._seen.items())}
            self._seen.clear()
            _append_seen(f"seen.{os.getpid()}.{_began}", {"context": self._context, "files": files})


_began = time.time_ns()


def begin() -> None:
    """Measure this process for the test that runs now, where a map is recorded."""
    if not _SETTINGS.exists() or _monitors:
        return
    _started["context"] = (_STATE / "context").read_text("utf-8")
    if sys.version_info >= (3, 12):
        _monitors.append(Monitor(_started["context"]))
        _monitors[0].start()
    else:
        import coverage  # noqa: PLC0415

        coverage.Coverage(
            config_file=str(_SETTINGS),
            data_suffix=True,
            context=_started["context"] or None,
            auto_data=True,
            messages=False,
        ).start()
    sys.addaudithook(_programs)


def _programs(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "os.exec":  # what this process was ends here, and nothing is called at its exit
        for monitor in _monitors:
            monitor.write()
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
        words = [os.fsdecode(word) for word in arguments[1] if isinstance(word, str | bytes | os.PathLike)]
        files = [word for word in words if word.endswith(".py")]
        if files:
            _append_seen("launched.jsonl", {"test": _started.get("context", ""), "files": files})


def _append(name: str, record: object) -> None:
    with contextlib.suppress(OSError), (_STATE / name).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def _append_seen(name: str, record: object) -> None:
    with contextlib.suppress(OSError):
        file = Path((_STATE / "seen").read_text("utf-8")) / name
        _append(str(file), record)  # an absolute path: in that folder
        file.chmod(0o666)


def _switch(context: str) -> str:
    before = _started.get("context", "")
    if not _SETTINGS.exists():
        return before
    _started["context"] = context
    (_STATE / "context").write_text(context, "utf-8")
    for monitor in _monitors:
        monitor.switch(context)
    if not _monitors:
        import coverage  # noqa: PLC0415

        current = coverage.Coverage.current()
        if current is not None:
            current.switch_context(context)
    return before


def _key(fixture: pytest.FixtureDef[Any]) -> str:
    return f"fixture {fixture.argname} of {fixture.baseid}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that are wanted, in their order; when recording, those without certain fixtures."""
    wanted = json.loads((_STATE / "wanted.json").read_text("utf-8"))
    if "tests" in wanted:
        place = {name: index for index, name in enumerate(wanted["tests"])}
        items[:] = sorted(
            (item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid]
        )
        return
    without = set(wanted["without_fixtures"])
    items[:] = [item for item in items if not without.intersection(getattr(item, "fixturenames", ()))]
    shared = {item.nodeid: _shared(item) for item in items}
    (_STATE / "fixtures.json").write_text(json.dumps(shared), "utf-8")


def _shared(item: pytest.Item) -> list[str]:
    """Return the fixtures that a test has in common with others: what they run is run for all of these."""
    named = getattr(item, "_fixtureinfo", None)
    definitions = [found[-1] for found in named.name2fixturedefs.values() if found] if named else []
    return [_key(found) for found in definitions if found.scope != "function"]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count what runs from here on for the test."""
    before = _switch(item.nodeid)
    try:
        return (yield)
    finally:
        _switch(before)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Count what a shared fixture runs for the fixture, not for the first test that wants it."""
    if fixturedef.scope == "function":
        return (yield)
    before = _switch(_key(fixturedef))
    try:
        return (yield)
    finally:
        _switch(before)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note each phase of each test."""
    _append("results.jsonl", {"test": report.nodeid, "outcome": report.outcome, "seconds": report.duration})


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note the test files that cannot be imported."""
    if report.failed:
        _append("results.jsonl", {"test": report.nodeid, "outcome": report.outcome, "seconds": 0})

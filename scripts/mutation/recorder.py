"""Copied into the environment of a mutation run's tests: a plug-in of pytest, and the start of each Python.

Its folder ``_mutants`` says what to do and takes what was seen: ``wanted.json`` the tests to run,
``results.jsonl`` a line for each phase of a test. While the map is recorded there are also ``coveragerc``,
``context`` (the test that runs now, for the processes it starts), ``data.*`` of coverage, ``fixtures.json``
and ``launched.jsonl``: files started as programs, whose Python may have been told to start without this (-S).

It is imported before pytest is: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_STATE = Path(__file__).parent / "_mutants"
_SETTINGS = _STATE / "coveragerc"
_started: dict[str, str] = {}


def begin() -> None:
    """Measure this process for the test that runs now, where a map is recorded."""
    if not _SETTINGS.exists():
        return
    import coverage  # noqa: PLC0415

    _started["context"] = (_STATE / "context").read_text("utf-8")
    coverage.Coverage(
        config_file=str(_SETTINGS),
        data_suffix=True,
        context=_started["context"] or None,
        auto_data=True,
        messages=False,
    ).start()
    sys.addaudithook(_programs)


def _programs(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
        words = [os.fsdecode(word) for word in arguments[1] if isinstance(word, str | bytes | os.PathLike)]
        files = [word for word in words if word.endswith(".py")]
        if files:
            _append("launched.jsonl", {"test": _started.get("context", ""), "files": files})


def _append(name: str, record: object) -> None:
    with contextlib.suppress(OSError), (_STATE / name).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def _switch(context: str) -> str:
    before = _started.get("context", "")
    if _SETTINGS.exists():
        import coverage  # noqa: PLC0415

        _started["context"] = context
        (_STATE / "context").write_text(context, "utf-8")
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

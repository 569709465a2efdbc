"""The rules of every test run.

A test names what it needs beyond Python, git and a C++ compiler with ``@pytest.mark.needs("fish")``; the
names are in support/needs.py. Where the tool is missing the test is not run and is named at the end with the
package to install. With ``CI=true`` a missing tool and a skipped test are failures. All tests run with a home
folder of their own, and a process that outlives the run fails it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from support import isolation, needs

if TYPE_CHECKING:
    from support.cli import Xpubuild

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

_CI = os.environ.get("CI", "").lower() in ("true", "1")
_GRACE_S = 3.0
_CHILDREN_S = 30.0
_not_run: dict[str, set[str]] = {}
_left: list[str] = []
_root: list[Path] = []
_guard = isolation.NetworkGuard()


def _runs_tests(config: pytest.Config) -> bool:
    """Whether this process runs tests itself; with xdist the controller does not."""
    return hasattr(config, "workerinput") or not config.getoption("numprocesses", default=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run ask for every repetition of what is repeated."""
    parser.addoption(
        "--thorough",
        action="store_true",
        help="repeat at every moment and place that a test knows, not at a few",
    )
    parser.addoption("--on-demand", action="store_true", help="also run the tests that take many minutes")


def pytest_configure(config: pytest.Config) -> None:
    """Leave the user's environment before anything is collected."""
    config.addinivalue_line("markers", "as_root: needs rights that only root has (added by 'needs')")
    if _runs_tests(config):
        _root.append(isolation.session_root())
        isolation.isolate(os.environ, _root[0])
        os.umask(0o022)
        isolation.heed_interrupts()
        _guard.install()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out the tests whose tool is missing, in CI they stay and fail, and those that run on demand only.

    What needs a right instead of a package is marked ``as_root``, so that ``-m`` can choose it. Tests that
    share what one of their file makes run in one worker of xdist.
    """
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        if item.get_closest_marker("on_demand") and not config.getoption("--on-demand"):
            dropped.append(item)
            continue
        if any(not needs.TOOLS[name].package for name in _needed(item)):
            item.add_marker("as_root")
        lacking = [name for name in _needed(item) if needs.missing(name)]
        for name in lacking:
            _not_run.setdefault(name, set()).add(item.nodeid)
        (dropped if lacking and not _CI else kept).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
    for item in kept:
        # Each worker would make what the tests of a file share once more.
        if not item.get_closest_marker("xdist_group") and "module" in _scopes(item):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def _scopes(item: pytest.Item) -> set[str]:
    shared = getattr(item, "_fixtureinfo", None)
    return {found[-1].scope for found in shared.name2fixturedefs.values() if found} if shared else set()


def _needed(item: pytest.Item) -> Iterable[str]:
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            if name not in needs.TOOLS:
                raise pytest.UsageError(f"{item.nodeid} needs '{name}', which support/needs.py does not know")
            yield name


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail, in CI, what lacks its tool."""
    for name in _needed(item):
        tool = needs.missing(name)
        if tool is not None:
            pytest.fail(f"needs {name}, which is not here: {tool.advice}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure in CI."""
    report = yield
    return _no_skip(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a skipped module into a failure in CI."""
    report = yield
    return _no_skip(report)


def _no_skip(report: Report) -> Report:
    if _CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI does not allow: {report.longrepr}"
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Look for processes that outlived their test, and tell the xdist controller what it cannot see."""
    if _root:
        processes = isolation.left_behind(_root[0])
        until = time.monotonic() + _GRACE_S
        while processes and time.monotonic() < until:
            time.sleep(0.1)
            processes = isolation.left_behind(_root[0])
        _left.extend(isolation.stop(processes))
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["not_run"] = {name: sorted(ids) for name, ids in _not_run.items()}
        output["left"] = _left
    elif _left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what an xdist worker found."""
    output = getattr(node, "workeroutput", {})
    for name, ids in output.get("not_run", {}).items():
        _not_run.setdefault(name, set()).update(ids)
    _left.extend(output.get("left", []))


@pytest.fixture(scope="session")
def thorough(pytestconfig: pytest.Config) -> bool:
    """Whether all repetitions of a slow test are wanted; a few of them otherwise."""
    return bool(pytestconfig.getoption("--thorough"))


@pytest.fixture
def xpubuild(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Xpubuild]:
    """Run command lines of xpubuild in this process; what they started has ended when the next test begins.

    A command that ends early leaves the threads behind that look at the machine, as a program of its own they
    would end with it.
    """
    # Not at the top of this file: a test run must be able to say what is missing before xpubuild is imported.
    from support.cli import Xpubuild

    yield Xpubuild(capsys, monkeypatch)
    until = time.monotonic() + _CHILDREN_S
    while isolation.children_run() and time.monotonic() < until:
        time.sleep(0.02)


def pytest_unconfigure() -> None:
    """Remove the folder of the session."""
    if _root:
        _guard.remove()
        shutil.rmtree(_root.pop(), ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not run here and why, and which processes had to be stopped."""
    if _not_run and not _CI:
        terminalreporter.section("not run here", sep="-")
        for name, ids in sorted(_not_run.items()):
            files = ", ".join(sorted({identifier.partition("::")[0] for identifier in ids}))
            count = f"{len(ids)} test{'s' if len(ids) > 1 else ''}"
            terminalreporter.write_line(f"{name}: {count} ({files}); {needs.TOOLS[name].advice}")
    if _left:
        terminalreporter.section("processes left behind by tests", sep="=", red=True, bold=True)
        for line in _left:
            terminalreporter.write_line(line)

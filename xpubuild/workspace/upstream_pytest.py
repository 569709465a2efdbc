"""Runs pytest in the interpreter of the target, which has no xpubuild, and records each test as it goes.

``python upstream_pytest.py FILE [OPTIONS OF PYTEST]``. FILE is JSON: ``records``, the file to append to;
``without`` and ``only``, words of names, as torch-xpu-ops' own lists have them; ``part``, such as [1, 4] for
every fourth test from the second on. A test that the records name does not run again: after one that ended
the interpreter, the same command goes on with the next.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

_LONGEST = 300


class Recorder:
    """A plug-in of pytest: chooses tests, and writes a line when one begins and when it has ended."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked, self._file = asked, Path(asked["records"])
        lines = self._file.read_text("utf-8").splitlines() if self._file.is_file() else []
        self._begun = {json.loads(line)["id"] for line in lines}
        self._worst: dict[str, Any] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep what is asked for and has not begun before."""
        first, parts = self._asked["part"]
        mine = [item for item in items if self._is_wanted(item.nodeid)][first::parts]
        kept = [item for item in mine if _name(item.nodeid) not in self._begun]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record a file or class whose tests cannot be collected."""
        if report.failed:
            detail, name = _reason(report, -1).removeprefix("E ").strip(), report.nodeid.partition("::")[2]
            self._write(id=name, outcome="failed", seconds=0.0, detail=detail)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Record that a test begins."""
        self._worst = {"id": _name(nodeid), "outcome": "passed", "seconds": 0.0, "detail": ""}
        self._write(id=_name(nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the result of set-up, call or tear-down; a failure in one of them counts."""
        self._worst["seconds"] += report.duration
        if report.outcome == "failed" or (report.skipped and self._worst["outcome"] == "passed"):
            self._worst |= {"outcome": report.outcome, "detail": _reason(report, 0)}

    def pytest_runtest_logfinish(self) -> None:
        """Record how it ended."""
        self._write(**{**self._worst, "seconds": round(self._worst["seconds"], 3)})

    def _is_wanted(self, node: str) -> bool:
        name = node.lower()
        only, without = ([word.lower() for word in self._asked[key]] for key in ("only", "without"))
        return not any(word in name for word in without) and (not only or any(word in name for word in only))

    def _write(self, **record: Any) -> None:
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")


def _name(node: str) -> str:
    """Return a node id without its file, which differs with the folder that pytest takes as its root."""
    return node.partition("::")[2] or node


def _reason(report: pytest.CollectReport | pytest.TestReport, line: int) -> str:
    said: Any = report.longrepr
    if isinstance(said, tuple):  # a skip: file, line, reason
        return str(said[2]).removeprefix("Skipped: ")[:_LONGEST]
    crash = getattr(said, "reprcrash", None)
    lines = [text for text in str(crash.message if crash else said).splitlines() if text.strip()]
    return lines[line].strip()[:_LONGEST] if lines else ""


def main(arguments: Sequence[str]) -> int:
    """Run pytest and return its exit status."""
    asked = json.loads(Path(arguments[0]).read_text("utf-8"))
    sys.path[0] = str(Path.cwd())  # as 'python -m pytest' has it
    return int(pytest.main(list(arguments[1:]), plugins=[Recorder(asked)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Verification as a person sees it: a line per check while it runs, then a table."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol, TextIO

from xpubuild.ui import format as show
from xpubuild.ui.parts import Column, Facts, Part, TableBuilder
from xpubuild.ui.terminal import Terminal, one_line


class Result(Protocol):
    """What is shown of a check."""

    @property
    def id(self) -> str:
        """The check's id."""
        ...

    @property
    def status(self) -> str:
        """How it ended."""
        ...

    @property
    def duration_s(self) -> float:
        """Seconds it took."""
        ...

    @property
    def detail(self) -> str:
        """Why, where there is something to say."""
        ...


class CheckPrinter:
    """Writes ``[3/28] pass aten.sort 0.1 s`` to standard error as each check ends."""

    def __init__(self, *, total: int, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._total = total
        self._done = 0
        self._quiet = quiet
        self._stream = sys.stderr if stream is None else stream

    def emit(self, result: Result) -> None:
        """Take one result."""
        self._done += 1
        if self._quiet and result.status in ("pass", "skip"):
            return
        detail = f": {one_line(result.detail)}" if result.detail and result.status != "pass" else ""
        time = show.duration(result.duration_s)
        # Who started it may have logged out; the checks go on.
        line = f"[{self._done}/{self._total}] {result.status} {result.id} {time}{detail}\n"
        Terminal.detect(self._stream, os.environ).try_write(line)

    def progress(self, identifier: str, detail: str) -> None:
        """Say how far a long check is."""
        if not self._quiet:
            line = f"[{self._done + 1}/{self._total}] {identifier}: {one_line(detail)}\n"
            Terminal.detect(self._stream, os.environ).try_write(line)


def verify_view(document: Mapping[str, Any], *, quiet: bool = False) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.verify/1`` document; ``quiet`` leaves the result alone.

    Failures are on standard error by then: ``CheckPrinter`` wrote them as they came.
    """
    table = TableBuilder(["check", "result", Column("time", right=True), "detail"])
    for check in document["checks"]:
        table.add(check["id"], check["status"], show.duration(check["duration_s"]), one_line(check["detail"]))
    warnings = TableBuilder(["check", "warning"])
    for check in document["checks"]:
        for warning in check.get("warnings", ()):
            warnings.add(check["id"], one_line(warning))
    torch, device = document.get("torch", {}), document.get("device", {})
    counts = ", ".join(f"{count} {status}" for status, count in document["summary"].items() if count)
    facts = Facts(
        (
            ("result", f"{document['status']} ({counts})"),
            ("torch", str(torch.get("version", "cannot be imported"))),
            ("C++ ABI", str(torch.get("cxx11_abi", "unknown"))),
            ("device", str(device.get("name", device.get("type", "unknown")))),
        )
    )
    if quiet:
        return (facts,)
    warned = any(check.get("warnings") for check in document["checks"])
    return (table.build("Checks"), *((warnings.build("Warnings"),) if warned else ()), facts)


def summary_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the result, what did not pass, and the parts of ``verify_view``, for a page."""
    table = TableBuilder(["check", "result", "detail"])
    for check in document["checks"]:
        if check["status"] not in ("pass", "skip"):
            table.add(check["id"], check["status"], check["detail"])
    *tables, facts = verify_view(document)
    return (facts, table.build("Not passed"), *tables)


def checks_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the table of all checks."""
    table = TableBuilder(["check", "suites", "what it checks"])
    for check in document["checks"]:
        table.add(check["id"], ", ".join(check["suites"]), check["title"])
    return (table.build(),)

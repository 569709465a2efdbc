"""Checks and contexts for tests of doctor's frame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from xpubuild.doctor.kit import Check, Look, Outcome
from xpubuild.doctor.registry import Selection, select
from xpubuild.doctor.report import Report, make_report
from xpubuild.doctor.runner import run_checks
from xpubuild.machine.capacity import CpuFacts, MemoryFacts
from xpubuild.machine.disk import DiskFacts
from xpubuild.machine.host_report import HostReport, PythonReport
from xpubuild.machine.system import OsFacts

Answer = Outcome | Callable[[Look], Outcome]


def a_host(**changes: Any) -> HostReport:
    """Return a host about which nothing is known but what is given."""
    facts: dict[str, Any] = {
        "gpus": (), "os": OsFacts(), "cpu": CpuFacts(), "memory": MemoryFacts(), "disk": DiskFacts("/"),
        "python": PythonReport(None, ()), "compilers": (), "tools": (),
    }  # fmt: skip
    return HostReport(**{**facts, **changes})


def a_context(root: Path = Path("/"), environ: dict[str, str] | None = None, **host: Any) -> Look:
    """Return a context that costs nothing to make."""
    return Look(a_host(**host), environ or {}, root)


def a_check(identifier: str, answer: Answer | None = None, **fields: Any) -> Check:
    """Return a check that gives an answer (ok where none is given), or calls it."""

    def ask(look: Look) -> Outcome:
        given = answer or Outcome("ok", f"{identifier} is well")
        return given if isinstance(given, Outcome) else given(look)

    return Check(ask, identifier, f"title of {identifier}", **fields)


def everything(*checks: Check) -> Selection:
    return select(checks)


def report_of(*checks: Check, context: Look | None = None, **choice: Any) -> Report:
    given = context or a_context()
    selection = select(checks, **choice)
    profiles = choice.get("profiles", ("run", "build"))
    return make_report(given, selection, run_checks(given, selection), profiles, str)

"""Watches one attempt at a build step: the XPU gate for XPU builds, and explain for everything printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xpubuild.engine.model import Stop, Verdict
from xpubuild.errors import NoSpaceError, NoXpuError, XpuBuildError
from xpubuild.explain.document import Circumstances
from xpubuild.explain.load import shipped_rules
from xpubuild.explain.rank import LikelyCause
from xpubuild.explain.signature import Code
from xpubuild.explain.watch import LogWatcher
from xpubuild.gate.expectation import Expectation
from xpubuild.gate.xpu_gate import XpuGate
from xpubuild.host.packages import system_of
from xpubuild.host.system import os_facts

_ERRORS: dict[Code, type[XpuBuildError]] = {"no-space": NoSpaceError, "no-xpu": NoXpuError}
_FACTS = {True: "xpu-wanted", False: "xpu-not-wanted"}


class StepWatcher:
    """Watches one attempt at a step."""

    def __init__(self, xpu: bool, expected: Expectation | None, recipe: str = "") -> None:
        self._gate = XpuGate(expected) if expected is not None else None
        facts = frozenset({_FACTS[xpu]})
        self._log = LogWatcher(Circumstances(system=system_of(os_facts()), facts=facts, recipe=recipe))
        self._document: dict[str, Any] | None = None

    def line(self, text: str, number: int) -> Sequence[Verdict]:
        """Take a line of the log."""
        verdicts = self._gate.line(text, number) if self._gate is not None else []
        found = self._log.feed(text)
        return [*verdicts, *self._stops(found, text)] if found is not None else verdicts

    def poll(self) -> Sequence[Verdict]:
        """Look at CMakeCache.txt."""
        return self._gate.poll() if self._gate is not None else ()

    def explain(self, error: XpuBuildError) -> XpuBuildError:
        """Add to an error what the log says about it."""
        if self._document is None:
            self._document = self._log.finish().to_json()
        if self._document["findings"] or self._document["first_error"]:
            error.explanation = self._document
        return error

    def _stops(self, found: LikelyCause, text: str) -> list[Verdict]:
        code = shipped_rules().by_id(found.id).error
        if code is None or (code == "no-xpu" and self._gate is not None):
            # The gate says that with the whole message, a few lines later.
            return []
        fix = f"{found.fix} Then run the same command again: finished steps are kept"
        lines = [{"line": found.line, "text": text}]
        evidence = {"rule": found.id, "file": None, "lines": lines, "source": ", ".join(found.sources)}
        kind = _ERRORS[code]
        return [
            Stop(
                kind(
                    found.title,
                    why=found.cause,
                    fix=fix,
                    commands=(found.next_command,),
                    evidence=evidence,
                )
            )
        ]

"""Watches one attempt at a build step: the XPU gate for XPU builds, and explain for everything printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xpubuild.artifacts.closed_build import ClosedBuild
from xpubuild.artifacts.expectation import Expectation
from xpubuild.artifacts.xpu_gate import XpuGate
from xpubuild.engine.model import Caution, Stop, Verdict
from xpubuild.errors import BuildError, NoSpaceError, NoXpuError, XpuBuildError
from xpubuild.explain.document import Circumstances, LikelyCause
from xpubuild.explain.rules import Code, shipped_rules
from xpubuild.explain.watch import LogWatcher
from xpubuild.machine.system import os_facts, system_of

_ERRORS: dict[Code, type[XpuBuildError]] = {"no-space": NoSpaceError, "no-xpu": NoXpuError}
#: ninja's report of a failed edge, but not of a trial that CMake makes; the code came with ninja 1.13.
_EDGE_FAILED = re.compile(r"\s*FAILED: (?!.*\bcmTC_)(?:\[code=\d+\] )?(?:\S*/)?(\S+)")
_FACTS = {True: "xpu-wanted", False: "xpu-not-wanted"}


class StepWatcher:
    """Watches one attempt at a step."""

    def __init__(
        self, xpu: bool, expected: Expectation | None, recipe: str = "", closed: str = ""
    ) -> None:  # fmt: skip
        self._closed = ClosedBuild(closed) if closed else None
        self._gate = XpuGate(expected) if expected is not None else None
        facts = frozenset({_FACTS[xpu]})
        self._log = LogWatcher(Circumstances(system=system_of(os_facts()), facts=facts, recipe=recipe))
        self._edge_failed = False
        self._document: dict[str, Any] | None = None

    def line(self, text: str, number: int) -> Sequence[Verdict]:
        """Take a line of the log."""
        verdicts = self._gate.line(text, number) if self._gate is not None else []
        if self._closed is not None and (refused := self._closed.line(text)) is not None:
            verdicts = [*verdicts, Stop(refused)]
        if not self._edge_failed and (failed := _EDGE_FAILED.match(text)):
            # ninja starts nothing more, but waits for what runs: an external project can take half an hour.
            self._edge_failed = True
            words = f"{failed[1]} failed: the build ends with what is running now (Ctrl-C ends it at once)"
            verdicts = [*verdicts, Caution("edge-failed", words, (text.strip(),))]
        cause = self._log.feed(text)
        return verdicts if cause is None else [*verdicts, *self._stops(cause, text)]

    def poll(self) -> Sequence[Verdict]:
        """Look at CMakeCache.txt."""
        return self._gate.poll() if self._gate is not None else []

    def explain(self, error: XpuBuildError) -> XpuBuildError:
        """Add the findings of explain in the log to an error, or say that the build has no network."""
        if self._closed is not None and isinstance(error, BuildError):
            error = self._closed.error() or error
        if self._document is None:
            self._document = self._log.finish().to_json()
        if self._document["findings"] or self._document["first_error"]:
            error.explanation = self._document
        return error

    def _stops(self, found: LikelyCause, text: str) -> list[Stop]:
        code = shipped_rules().by_id(found.id).error
        if code is None or (code == "no-xpu" and self._gate is not None):
            # The gate reports that with the whole message, a few lines later.
            return []
        fix = f"{found.fix} Then run the same command again: finished steps are kept"
        lines = [{"line": found.line, "text": text}]
        evidence = {"rule": found.id, "file": None, "lines": lines, "source": ", ".join(found.sources)}
        error = _ERRORS[code](
            found.title, why=found.cause, fix=fix, commands=(found.next_command,), evidence=evidence
        )
        return [Stop(error)]

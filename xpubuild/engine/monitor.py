"""Connects the watcher of a step with the running command: counts lines, reports, stops the command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xpubuild.engine.events import Sink, notify
from xpubuild.engine.lines import passing
from xpubuild.engine.model import Step, Stop, Verdict
from xpubuild.engine.process import Cancel
from xpubuild.errors import XpuBuildError

#: The proof under which the evidence of a step holds what its watcher had to say.
WATCHED = "watched while it ran"


def warnings_in(evidence: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the warnings of a watcher in the evidence of a step, as documents have them."""
    told = [warning for item in evidence if item["proof"] == WATCHED for warning in item["warnings"]]
    return [{key: warning[key] for key in ("id", "text", "lines")} for warning in told]


class Monitor:
    """What one attempt at a step needs to be watched; harmless for a step without a watcher."""

    def __init__(self, step: Step, sink: Sink, cancel: Cancel) -> None:
        #: Set where the user wants to stop or the watcher does.
        self.cancel = Cancel(cancel)
        self._user, self._step, self._sink = cancel, step.id, sink
        self._watcher = step.watch() if step.watch is not None else None
        self._warnings: list[dict[str, Any]] = []
        self._number = 0
        self._stop: XpuBuildError | None = None

    def line(self, line: str) -> None:
        """Take a line that the command printed."""
        if self._watcher is not None and not passing(line):
            self._number += 1
            self._judge(self._watcher.line(line, self._number))

    def poll(self) -> None:
        """Let the watcher look at files."""
        if self._watcher is not None and self._stop is None:
            self._judge(self._watcher.poll())

    def raise_stop(self, log: Path) -> None:
        """Raise what the watcher stopped the command with, if it did; call it when the command has ended."""
        if not self._user and self._watcher is not None and self._stop is None:
            self._judge(self._watcher.poll())
        if self._stop is not None:
            self._stop.log = self._stop.log or log
            raise self.explain(self._stop)

    def explain(self, error: XpuBuildError) -> XpuBuildError:
        """Return the error to show for a command that failed."""
        if self._watcher is None:
            return error
        found = self._watcher.explain(error)
        found.log = found.log or error.log
        if cause := found.likely_cause():
            notify(self._sink, f"likely cause: {cause}", level="error", step=self._step)
        return found

    def evidence(self) -> list[dict[str, Any]]:
        """Return what belongs into the receipt."""
        return [{"proof": WATCHED, "warnings": self._warnings}] if self._warnings else []

    def _judge(self, verdicts: Iterable[Verdict]) -> None:
        for item in verdicts:
            if self._stop is not None:
                return
            if isinstance(item, Stop):
                self._stop = item.error
                self.cancel.set(item.error.what)
            else:
                warning = {"id": item.id, "text": item.text, "lines": list(item.lines), **item.evidence}
                self._warnings.append(warning)
                notify(self._sink, item.text, level="warning", step=self._step)

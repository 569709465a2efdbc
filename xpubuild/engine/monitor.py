"""Connects the watcher of a step with the running command: counts lines, reports, stops the command."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from xpubuild.engine.events import Notice, Sink
from xpubuild.engine.lines import passing
from xpubuild.engine.model import Caution, Step, Stop, Verdict
from xpubuild.engine.watch import Cancel
from xpubuild.errors import XpuBuildError

#: The proof under which the evidence of a step holds what its watcher had to say.
WATCHED = "watched while it ran"


class _Either(Cancel):
    """Set where the user wants to stop or the watcher does."""

    def __init__(self, user: Cancel) -> None:
        super().__init__()
        self._user = user

    def __bool__(self) -> bool:
        return self._asked or bool(self._user)


class Monitor:
    """What one attempt at a step needs to be watched; harmless for a step without a watcher."""

    def __init__(self, step: Step, sink: Sink, cancel: Cancel) -> None:
        self.cancel: Cancel = _Either(cancel)
        self._user = cancel
        self.cautions: list[Caution] = []
        self._step = step
        self._sink = sink
        self._watcher = step.watch() if step.watch is not None else None
        self._number = 0
        self._stop: XpuBuildError | None = None

    def written(self, text: str) -> None:
        """Take what the engine itself wrote into the log, whole lines."""
        for line in text.removesuffix("\n").split("\n"):
            self.line(line)

    def line(self, line: str) -> None:
        """Take a line that the command printed."""
        if self._watcher is None or passing(line):
            return
        self._number += 1
        self._hear(self._watcher.line(line, self._number))

    def poll(self) -> None:
        """Let the watcher look at files."""
        if self._watcher is not None and self._stop is None:
            self._hear(self._watcher.poll())

    def raise_stop(self, log: Path) -> None:
        """Raise what the watcher stopped the command with, if it did; call it when the command has ended."""
        if not self._user and self._watcher is not None and self._stop is None:
            self._hear(self._watcher.poll(ended=True))
        if self._stop is not None:
            self._stop.log = self._stop.log or log
            raise self._explained(self._stop)

    def explain(self, error: XpuBuildError) -> XpuBuildError:
        """Return the error to show for a command that failed by itself."""
        return self._explained(error)

    def evidence(self) -> list[dict[str, Any]]:
        """Return what belongs into the receipt."""
        if not self.cautions:
            return []
        told = [
            {"id": item.id, "text": item.text, "lines": list(item.lines), **item.evidence}
            for item in self.cautions
        ]
        return [{"proof": WATCHED, "warnings": told}]

    def _explained(self, error: XpuBuildError) -> XpuBuildError:
        if self._watcher is None:
            return error
        told = self._watcher.explain(error)
        told.log = told.log or error.log
        cause = told.likely_cause()
        if cause:
            self._tell("error", f"likely cause: {cause}")
        return told

    def _hear(self, verdicts: Iterable[Verdict]) -> None:
        for verdict in verdicts:
            if isinstance(verdict, Stop):
                if self._stop is None:
                    self._stop = verdict.error
                    self.cancel.set(verdict.error.what)
            elif self._stop is None:
                self.cautions.append(verdict)
                self._tell("warning", verdict.text)

    def _tell(self, level: str, text: str) -> None:
        self._sink.emit(Notice(time=time.time(), level=level, text=text, step=self._step.id))

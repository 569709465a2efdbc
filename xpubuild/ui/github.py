"""The sink for GitHub Actions: plain lines, a fold with the output of each step, annotations.

The log is one stream, so the output of steps that run in parallel would be mixed: the output of a step is
kept and printed, folded, when the step ends. Progress lines in between show that it is running.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from xpubuild.engine.events import Event, Notice, StepFinished, StepOutput
from xpubuild.engine.progress import is_counter
from xpubuild.ui.level import Level
from xpubuild.ui.plain import PlainSink
from xpubuild.ui.terminal import Terminal, clean, one_line

#: Lines of output kept per step; the whole is in the step's log.
_KEPT_LINES = 5000


def escape_data(text: str) -> str:
    """Escape the message of a workflow command (percent first, or the others would be escaped twice)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Escape a property such as ``title``, where colon and comma separate."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def harmless(text: str) -> str:
    """Return foreign output in a form the runner does not take for a command of the old style, ``##[name]``.

    Commands of the new style count at the start of a line only, where this sink puts the time.
    """
    return text.replace("##[", "## [")


def annotation(kind: str, message: str, title: str = "") -> str:
    """Return the workflow command that makes an annotation; ``kind`` is error, warning or notice."""
    head = f"{kind} title={escape_property(clean(title))}" if title else kind
    return f"::{head}::{escape_data(clean(message))}\n"


class GithubSink(PlainSink):
    """Plain lines with folds and annotations."""

    def __init__(
        self, terminal: Terminal, level: Level = Level.NORMAL, clock: Callable[[], float] = time.time
    ) -> None:
        # Output goes into the folds, whole; that is what --verbose would add.
        super().__init__(terminal, min(level, Level.NORMAL), clock)
        self._output: dict[str, deque[str]] = {}
        self._dropped: dict[str, int] = {}

    def emit(self, event: Event) -> None:
        """Take one event."""
        super().emit(event)
        if isinstance(event, StepOutput):
            self._keep(event)
        elif isinstance(event, StepFinished):
            self._output.pop(event.step, None)

    def close(self) -> None:
        """Print what steps said that never ended (the run was broken off)."""
        for step in list(self._output):
            self._fold(step, f"{step}: interrupted")

    def line(self, at: float, text: str, *styles: str) -> None:
        """Write lines in which no workflow command can hide."""
        super().line(at, harmless(text), *styles)

    def step_finished(self, event: StepFinished) -> None:
        """Print the fold of the step, then how it ended."""
        self._fold(event.step, f"{event.step}: output")
        super().step_finished(event)
        if event.status == "failed":
            message = event.detail or f"see {self.log_of(event.step) or 'its log'}"
            self.terminal.write(annotation("error", message, f"{event.step} failed"))

    def notice(self, event: Notice) -> None:
        """Make annotations of warnings and errors."""
        if event.level in ("warning", "error"):
            self.terminal.write(annotation(event.level, event.text, event.step))
        else:
            super().notice(event)

    def _keep(self, event: StepOutput) -> None:
        if is_counter(event.line):
            return
        kept = self._output.setdefault(event.step, deque(maxlen=_KEPT_LINES))
        if len(kept) == _KEPT_LINES:
            self._dropped[event.step] = self._dropped.get(event.step, 0) + 1
        kept.append(f"{self.stamp(event.time)} {harmless(one_line(event.line))}\n")

    def _fold(self, step: str, title: str) -> None:
        kept = self._output.pop(step, None)
        if not kept:
            return
        dropped = self._dropped.pop(step, 0)
        head = f"... {dropped} earlier lines are in {self.log_of(step)}\n" if dropped else ""
        body = harmless(clean(head)) + "".join(kept)
        self.terminal.write(f"::group::{escape_data(one_line(title))}\n{body}::endgroup::\n")

"""The sink for a person's terminal: one picture of the whole run, drawn in place ten times a second."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from xpubuild.engine.events import Event, Notice, RunFinished, StepOutput
from xpubuild.ui import wording
from xpubuild.ui.level import Level
from xpubuild.ui.live_draw import ASCII, UNICODE, Painter
from xpubuild.ui.live_state import RunView
from xpubuild.ui.region import DrawnLine, Region
from xpubuild.ui.terminal import Terminal, clean, one_line

_COLORS = {"warning": "yellow", "error": "red"}


class RichSink:
    """Keeps the picture of a run at the bottom of the terminal; notices and verbose output scroll above it.

    ``clock`` returns the time that events carry: seconds since the epoch.
    """

    #: Seconds between calls of ``tick``, which draws.
    period_s = 0.1

    def __init__(
        self, terminal: Terminal, level: Level = Level.NORMAL, clock: Callable[[], float] = time.time
    ) -> None:
        self.terminal = terminal
        self.level = level
        self._clock = clock
        self._run = RunView()
        self._region = Region(terminal)
        self._above: list[str] = []
        self._glyphs = UNICODE if terminal.unicode else ASCII
        self._final = False

    def emit(self, event: Event) -> None:
        """Take one event; it is drawn at the next tick."""
        self._run.apply(event)
        if isinstance(event, Notice):
            styles = (_COLORS[event.level],) if event.level in _COLORS else ()
            lines = clean(wording.notice(event)).rstrip("\n").split("\n")
            self._above += [self.terminal.paint(self.terminal.printable(line), *styles) for line in lines]
        elif isinstance(event, StepOutput) and self.level is Level.VERBOSE:
            self._above.append(self.terminal.printable(f"{event.step} | {one_line(event.line)}"))
        elif isinstance(event, RunFinished):
            self._finish()
        if self._final:
            self.tick()

    def tick(self) -> None:
        """Draw the picture as it is now."""
        above, self._above = self._above, []
        if self._final or not self._run.steps:
            self._region.draw([], above)
            return
        columns, rows = self.terminal.size()
        painter = Painter(columns, self._glyphs, self.terminal.printable)
        self._region.draw(self._drawn(painter.frame(self._run, self._clock(), rows), columns), above)

    def close(self) -> None:
        """Draw the last picture, with the cursor on the line below it."""
        self._finish()

    def _finish(self) -> None:
        if not self._final and self._run.steps:
            columns, _ = self.terminal.size()
            now = self._clock()
            self._run.break_off(now)
            lines = Painter(columns, self._glyphs, self.terminal.printable).last_frame(self._run, now)
            above, self._above = self._above, []
            self._region.draw(self._drawn(lines, columns), above)
            self._region.release()
        self._final = True
        if self._above:
            self.tick()

    def _drawn(self, lines: Sequence[Text], columns: int) -> list[DrawnLine]:
        """Turn rich text into characters and colour codes for this terminal."""
        console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system="standard" if self.terminal.color else None,
            no_color=not self.terminal.color,
            width=max(columns, 1),
            legacy_windows=False,
        )
        drawn = []
        for line in lines:
            with console.capture() as capture:
                console.print(line, end="", no_wrap=True, overflow="crop", soft_wrap=True)
            drawn.append(DrawnLine(capture.get(), line.cell_len))
        return drawn

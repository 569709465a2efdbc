"""The sink for a person's terminal: what ended is a line each; below, rich draws what runs, in place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from rich.console import ConsoleDimensions, Group, OverflowMethod, RenderableType
from rich.live import Live
from rich.text import Text

from xpubuild.engine import events
from xpubuild.ui import wording
from xpubuild.ui.rich_parts import console_of
from xpubuild.ui.terminal import Terminal, one_line
from xpubuild.ui.wording import Level, Running, shown

_STYLES = {
    "done": "green", "up-to-date": "green", "failed": "bold red", "cancelled": "yellow", "ok": "bold green",
    "warning": "yellow", "error": "red",
}  # fmt: skip
#: Marks of what ended, that of all others, frames of the spinner, both parts of a bar, what separates.
_UNICODE = ({"failed": "✗", "cancelled": "■"}, "✓", "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "━─", " · ")
_ASCII = ({"failed": "x", "cancelled": "-"}, "+", "|/-\\", "#-", ", ")
_FRAMES_PER_S = 8
_DONE = ("done", "up-to-date")


class RichSink:
    """Keeps what runs at the bottom of the terminal; what ended, notices and output scroll above it.

    ``clock`` returns the time that events carry: seconds since the epoch.
    """

    #: Seconds between calls of ``tick``, which draws.
    period_s = 0.1

    def __init__(
        self, terminal: Terminal, level: Level = Level.NORMAL, clock: Callable[[], float] = time.time
    ) -> None:
        self.terminal, self.level, self._clock = terminal, level, clock
        self._marks, self._done, self._spinner, self._bar, self._dot = (
            _UNICODE if terminal.unicode else _ASCII
        )
        self._overflow: OverflowMethod = "ellipsis" if terminal.unicode else "crop"
        self._run = events.RunStarted(0.0, "", "", (), ())
        self._running: dict[str, Running] = {}
        self._ended: list[str] = []
        self._forecast: events.RunForecast | None = None
        self._above: list[Text] = []
        self._console = console_of(terminal, terminal.stream)
        self._live = Live(
            console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False,
            transient=True, get_renderable=self.frame,
        )  # fmt: skip

    def emit(self, event: events.Event) -> None:
        """Take one event; it is drawn at the next tick."""
        match event:
            case events.RunStarted():
                self._run = event
                self._say(f"{event.recipe}  {event.workspace}", "bold")
                self._resize()
                self._live.start()
                # Whatever ends the program, SIGKILL included, leaves a terminal that needs no repair.
                self._console.show_cursor(True)
            case events.StepStarted():
                self._running[event.step] = Running(event.time, event.title, event.log, event.reason)
            case events.StepProgress() if event.step in self._running:
                self._running[event.step].progress = event
            case events.StepFinished():
                step = self._running.pop(event.step, None)
                self._end(event, step.log if step else "")
            case events.RunForecast():
                self._forecast = event
            case events.RunFinished():
                self._say(wording.line(event), _STYLES.get(event.status, "bold yellow"))
                self._running = {}
                self.tick()
                self._live.stop()
            case events.Notice() | events.StepOutput() if shown(event, self.level):
                for line in wording.line(event).rstrip("\n").split("\n"):
                    self._say(line, _STYLES.get(getattr(event, "level", ""), ""))
                if not self._live.is_started:
                    self.tick()

    def tick(self) -> None:
        """Draw the picture as it is now, below the waiting messages."""
        self._resize()
        above, self._above = self._above, []
        if above:
            # The picture is drawn with it, as it was before.
            self._console.print(Text("\n").join(above), soft_wrap=True)
        elif self._live.is_started:
            self._live.refresh()

    def close(self) -> None:
        """Say what did not end, and leave the cursor on the line below."""
        if self._live.is_started:
            now = self._clock()
            for name, step in self._running.items():
                end = events.StepFinished(now, name, step.title, "cancelled", now - step.began)
                self._end(end, step.log)
            self.emit(events.RunFinished(now, "cancelled", now - self._run.time))

    def _end(self, event: events.StepFinished, log: str) -> None:
        """Say how a step ended, of one that failed why and where its log is."""
        self._ended.append(event.status)
        took = "up to date" if event.status == "up-to-date" else wording.duration(event.duration_s)
        mark, style = self._marks.get(event.status, self._done), _STYLES.get(event.status, "")
        self._say(f"  {mark} {event.step}: {event.title}, {took}", style)
        for text in (event.detail, f"log: {log}") if event.status == "failed" and log else ():
            self._say(f"    {text}", style)

    def frame(self) -> RenderableType:
        """Return the picture of what runs: two rows for each step, and how far the whole is."""
        now = self._clock()
        if not self._running:
            return Text()
        spin = self._spinner[int(max(0.0, now) * _FRAMES_PER_S) % len(self._spinner)]
        # The cursor rests on a line of its own below the block.
        return Group(*self._rows(spin, now), self._footer(now), Text())

    def _rows(self, spin: str, now: float) -> Iterator[Text]:
        for name, step in self._running.items():
            yield self._line(f"  {spin} {name}: {step.title}, {wording.clock(now - step.began)}", "cyan")
            yield self._activity(step)

    def _activity(self, step: Running) -> Text:
        """Return what a step works on, or a bar with how much is done."""
        progress = step.progress
        if progress is None or progress.total <= 0:
            return self._line(f"    {(progress and progress.detail) or step.detail}", "dim")
        cells = min(max(self._console.width // 8, 6), 30)
        full = cells * wording.percent(progress) // 100
        counted = wording.counted(progress.done, progress.total, self._clean(progress.unit))
        return Text.assemble(
            ("    " + self._bar[0] * full, "green"), (self._bar[1] * (cells - full), "dim"),
            f"  {counted} {wording.percent(progress):3d}%", (f"  {self._clean(progress.detail)}", "dim"),
            no_wrap=True, overflow=self._overflow,
        )  # fmt: skip

    def _footer(self, now: float) -> Text:
        failed, done = (sum(status in words for status in self._ended) for words in (("failed",), _DONE))
        parts = [
            f"{done} of {wording.plural(len(self._run.steps), 'step')} done",
            f"{failed} failed" if failed else "",
            wording.clock(now - self._run.time),
            wording.left(self._forecast) if self._forecast else "",
            "Ctrl-C stops; run again to resume",
        ]
        return self._line(self._dot.join(filter(None, parts)), "dim")

    def _say(self, text: str, style: str = "") -> None:
        """Say a line above the picture, whole: it is read and copied."""
        self._above.append(Text(self._clean(text), style))

    def _line(self, text: str, style: str) -> Text:
        return Text(self._clean(text), style, no_wrap=True, overflow=self._overflow)

    def _clean(self, text: str) -> str:
        """Return text from outside as it will really stand in the terminal, so that its width is known."""
        return self.terminal.printable(one_line(text))

    def _resize(self) -> None:
        columns, rows = self.terminal.size()
        # A row that is full would wrap in some terminals.
        self._console.size = ConsoleDimensions(max(columns - 1, 1), rows)

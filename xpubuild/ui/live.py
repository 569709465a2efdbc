"""The sink for a person's terminal: one picture of the whole run, which rich draws in place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions, Group, OverflowMethod, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from xpubuild.engine import events
from xpubuild.ui import wording
from xpubuild.ui.terminal import Terminal, clean, one_line
from xpubuild.ui.wording import Level

PENDING, RUNNING, UP_TO_DATE, FAILED, CANCELLED = "pending", "running", "up-to-date", "failed", "cancelled"
_STYLES = {
    PENDING: "dim", RUNNING: "cyan", "done": "green", UP_TO_DATE: "green", FAILED: "bold red",
    CANCELLED: "yellow", "ok": "bold green", "warning": "yellow", "error": "red",
}  # fmt: skip
#: Marks by state, that of all others, frames of the spinner, both parts of a bar, what separates.
_UNICODE = ({PENDING: "·", FAILED: "✗", CANCELLED: "■"}, "✓", "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "━─", " · ")
_ASCII = ({PENDING: ".", FAILED: "x", CANCELLED: "-"}, "+", "|/-\\", "#-", ", ")
#: Which steps are drawn first where not all of them fit.
_ORDER = {RUNNING: 0, FAILED: 1, CANCELLED: 1, PENDING: 2}
_FRAMES_PER_S = 8
#: Rows of a window above which there is room for header, footer, and the number of what is left out.
_ROOMY = 7
#: The time of a step stays near its title in a wide window.
_WIDEST, _LONGEST_ID = 110, 24


@dataclass
class _Step:
    """One step. ``began`` and ``progress.time`` are seconds since the epoch, ``duration_s`` is final."""

    id: str
    title: str
    state: str = PENDING
    began: float = 0.0
    duration_s: float = 0.0
    detail: str = ""
    log: str = ""
    progress: events.StepProgress | None = None


class Picture:
    """What the events of a run tell, drawn for a terminal: the time and the size of the window decide."""

    def __init__(self, terminal: Terminal) -> None:
        self._printable = terminal.printable
        self._marks, self._done, self._spinner, self._bar, self._dot = (
            _UNICODE if terminal.unicode else _ASCII
        )
        self._overflow: OverflowMethod = "ellipsis" if terminal.unicode else "crop"
        self._run = events.RunStarted(0.0, "", "", (), ())
        self._steps: dict[str, _Step] = {}
        self._forecast: events.RunForecast | None = None
        self._ended: events.RunFinished | None = None

    def apply(self, event: events.Event) -> None:
        """Take one event."""
        match event:
            case events.RunStarted():
                self._run = event
                for name, title in event.steps:
                    self._steps[name] = _Step(name, title, UP_TO_DATE if name in event.done else PENDING)
            case events.StepStarted():
                step = _Step(event.step, event.title, RUNNING, event.time, 0.0, event.reason, event.log)
                self._steps[event.step] = step
            case events.StepProgress() if event.step in self._steps:
                self._steps[event.step].progress = event
            case events.StepFinished():
                step = self._steps.setdefault(event.step, _Step(event.step, event.title))
                step.state, step.duration_s, step.detail = event.status, event.duration_s, event.detail
            case events.RunForecast():
                self._forecast = event
            case events.RunFinished():
                self._ended = event

    def frame(self, now: float, rows: int, columns: int) -> RenderableType:
        """Return the picture of a run that goes on, in fewer than ``rows`` rows.

        Where not all steps fit, what runs or failed comes before what is to do and what is done.
        """
        drawn = {name: list(self._rows(step, now, columns)) for name, step in self._steps.items()}
        room = max(rows - (4 if rows >= _ROOMY else 1), 0)
        if sum(map(len, drawn.values())) > room + (rows >= _ROOMY):
            chosen: set[str] = set()
            for step in sorted(self._steps.values(), key=lambda step: _ORDER.get(step.state, 3)):
                if len(drawn[step.id]) <= room:
                    room -= len(drawn[step.id])
                    chosen.add(step.id)
            drawn = {name: lines for name, lines in drawn.items() if name in chosen}
        left = len(self._steps) - len(drawn)
        more = [self._line(f"  {wording.plural(left, 'more step')}", "dim")] if left else []
        table = self._table((line for lines in drawn.values() for line in lines), columns)
        if rows < _ROOMY:
            return Group(table, Text())
        # The cursor rests on a line of its own below the block.
        return Group(self._header(), table, *more, self._footer(now), Text())

    def last_frame(self, now: float, columns: int) -> RenderableType:
        """Return the picture that stays: every step that ran, however many rows that takes, and the end."""
        for step in self._steps.values():
            if step.state == RUNNING:  # the run ended without reporting it
                step.state, step.duration_s = CANCELLED, max(0.0, now - step.began)
        began = [step for step in self._steps.values() if step.state != PENDING]
        # Whole, to be read and copied: nothing is drawn over these any more.
        failed = [
            Text(self._say(f"{step.id}: {text}"), _STYLES[FAILED], overflow="fold", no_wrap=False)
            for step in began if step.state == FAILED
            for text in (step.detail, f"log: {step.log}" if step.log else "") if text
        ]  # fmt: skip
        left = len(self._steps) - len(began)
        idle = [self._line(f"  {self._marks[PENDING]} {wording.plural(left, 'step')} not started", "dim")]
        end = self._ended or events.RunFinished(now, CANCELLED, now - self._run.time)
        table = self._table((next(self._rows(step, now, columns)) for step in began), columns)
        last = self._line(wording.line(end), _STYLES.get(end.status, "bold yellow"))
        return Group(self._header(), table, *(idle if left else ()), *failed, last)

    def _table(self, rows: Iterable[tuple[Text, Text, Text]], columns: int) -> RenderableType:
        names = max((cell_len(self._say(name)) for name in self._steps), default=1)
        table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False, expand=True)
        table.width = min(columns, _WIDEST)
        table.add_column(no_wrap=True, overflow=self._overflow, width=min(names, _LONGEST_ID) + 4)
        table.add_column(no_wrap=True, overflow=self._overflow, ratio=1)
        table.add_column(no_wrap=True, justify="right")
        for row in rows:
            table.add_row(*row)
        return table

    def _rows(self, step: _Step, now: float, columns: int) -> Iterator[tuple[Text, Text, Text]]:
        """Yield the row of a step and, where it runs or failed, a second one with what it does or its log."""
        style = _STYLES.get(step.state, "")
        mark = self._marks.get(step.state, self._done)
        took = "" if step.state == PENDING else wording.duration(step.duration_s)
        if step.state == RUNNING:
            mark = self._spinner[int(max(0.0, now) * _FRAMES_PER_S) % len(self._spinner)]
            took = wording.clock(now - step.began)
        elif step.state == UP_TO_DATE:
            took = "up to date"
        title = Text(self._say(step.title), "dim" if step.state in (PENDING, UP_TO_DATE) else "")
        yield Text(f"  {mark} {self._say(step.id)}", style), title, Text(took, "dim")
        if step.state == RUNNING:
            yield Text(), self._activity(step, columns), Text()
        elif step.state == FAILED and step.log:
            yield Text(), self._line(f"log: {step.log}", "dim"), Text()

    def _activity(self, step: _Step, columns: int) -> Text:
        """Return what a step works on, or a bar with how much is done."""
        progress = step.progress
        if progress is None or progress.total <= 0:
            return self._line(progress.detail if progress and progress.detail else step.detail, "dim")
        cells = min(max(columns // 8, 6), 30)
        full = cells * wording.percent(progress) // 100
        counted = wording.counted(progress.done, progress.total, self._say(progress.unit))
        return Text.assemble(
            (self._bar[0] * full, "green"), (self._bar[1] * (cells - full), "dim"),
            f"  {counted} {wording.percent(progress):3d}%", (f"  {self._say(progress.detail)}", "dim"),
            no_wrap=True, overflow=self._overflow,
        )  # fmt: skip

    def _header(self) -> Text:
        return self._line(self._run.recipe, "bold").append(f"  {self._say(self._run.workspace)}", "dim")

    def _footer(self, now: float) -> Text:
        states = [step.state for step in self._steps.values()]
        failed, done = states.count(FAILED), states.count("done") + states.count(UP_TO_DATE)
        parts = [
            f"{done} of {wording.plural(len(states), 'step')} done",
            f"{failed} failed" if failed else "",
            wording.clock(now - self._run.time),
            wording.left(self._forecast) if self._forecast else "",
            "Ctrl-C stops; run again to resume",
        ]
        return self._line(self._dot.join(filter(None, parts)), "dim")

    def _line(self, text: str, style: str) -> Text:
        return Text(self._say(text), style, no_wrap=True, overflow=self._overflow)

    def _say(self, text: str) -> str:
        """Return text from outside as it will really stand in the terminal, so that its width is known."""
        return self._printable(one_line(text))


class RichSink:
    """Keeps the picture of a run at the bottom of the terminal; notices and verbose output scroll above it.

    ``clock`` returns the time that events carry: seconds since the epoch.
    """

    #: Seconds between calls of ``tick``, which draws.
    period_s = 0.1

    def __init__(
        self, terminal: Terminal, level: Level = Level.NORMAL, clock: Callable[[], float] = time.time
    ) -> None:
        self.terminal, self.level, self._clock = terminal, level, clock
        self._picture = Picture(terminal)
        self._above: list[Text] = []
        self._over = False
        self._console = Console(
            file=terminal.stream, force_terminal=True, color_system="standard" if terminal.color else None,
            no_color=not terminal.color, legacy_windows=False, highlight=False,
        )  # fmt: skip
        self._live = Live(
            console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False,
            get_renderable=self._draw,
        )  # fmt: skip

    def emit(self, event: events.Event) -> None:
        """Take one event; it is drawn at the next tick."""
        self._picture.apply(event)
        if isinstance(event, events.RunStarted):
            self._resize()
            self._live.start()
            # Whatever ends the program, SIGKILL included, leaves a terminal that needs no repair.
            self._console.show_cursor(True)
        elif isinstance(event, events.Notice) or (
            isinstance(event, events.StepOutput) and self.level is Level.VERBOSE
        ):
            text = self.terminal.printable(clean(wording.line(event)).rstrip("\n"))
            self._above.append(Text(text, _STYLES.get(getattr(event, "level", ""), "")))
            if not self._live.is_started:
                self.tick()
        elif isinstance(event, events.RunFinished):
            self.close()

    def tick(self) -> None:
        """Draw the picture as it is now, below what was to be said."""
        self._resize()
        above, self._above = self._above, []
        if above:
            # The picture is drawn with it, as it was before.
            self._console.print(Text("\n").join(above), soft_wrap=True)
        elif self._live.is_started:
            self._live.refresh()

    def close(self) -> None:
        """Draw the last picture, with the cursor on the line below it."""
        self._over = True
        self.tick()
        self._live.stop()

    def _resize(self) -> None:
        columns, rows = self.terminal.size()
        # A row that is full would wrap in some terminals.
        self._console.size = ConsoleDimensions(max(columns - 1, 1), rows)

    def _draw(self) -> RenderableType:
        rows, columns, now = self._console.height, self._console.width, self._clock()
        if self._over:
            return self._picture.last_frame(now, columns)
        return self._picture.frame(now, rows, columns)

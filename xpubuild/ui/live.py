"""The sink for a person's terminal: one picture of the whole run, which rich draws in place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions, Group, OverflowMethod, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from xpubuild.engine.events import (
    Event,
    Notice,
    RunFinished,
    RunForecast,
    RunStarted,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
)
from xpubuild.ui import wording
from xpubuild.ui.terminal import Terminal, clean, one_line
from xpubuild.ui.wording import Level

PENDING, RUNNING, DONE, UP_TO_DATE = "pending", "running", "done", "up-to-date"
FAILED, CANCELLED = "failed", "cancelled"
_STYLES = {
    PENDING: "dim", RUNNING: "cyan", DONE: "green", UP_TO_DATE: "green", FAILED: "bold red",
    CANCELLED: "yellow", "ok": "bold green", "warning": "yellow", "error": "red",
}  # fmt: skip
#: Marks by state, that of all others, frames of the spinner, both parts of a bar, what separates.
_UNICODE = ({PENDING: "·", FAILED: "✗", CANCELLED: "■"}, "✓", "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "━─", " · ")
_ASCII = ({PENDING: ".", FAILED: "x", CANCELLED: "-"}, "+", "|/-\\", "#-", ", ")
_FRAMES_PER_S = 8
#: Rows of a window above which there is room for the footer, the header, and the longest commands.
_FOOTER, _HEADER = 3, 7
#: The time of a step stays near its title in a wide window.
_WIDEST = 110
_LONGEST_ID = 24


@dataclass
class StepView:
    """One step. ``began`` and ``progress.time`` are seconds since the epoch, ``duration_s`` is final."""

    id: str
    title: str
    state: str = PENDING
    began: float = 0.0
    duration_s: float = 0.0
    detail: str = ""
    log: str = ""
    progress: StepProgress | None = None

    @property
    def rows(self) -> int:
        """How many rows it takes: what it does now, or where its log is, stands below it."""
        return 2 if self.state == RUNNING or (self.state == FAILED and self.log) else 1


@dataclass
class RunView:
    """The whole run; ``steps`` keeps the plan's order."""

    recipe: str = ""
    workspace: str = ""
    began: float = 0.0
    ended: RunFinished | None = None
    steps: dict[str, StepView] = field(default_factory=dict)
    forecast: RunForecast | None = None

    def apply(self, event: Event) -> None:
        """Take one event."""
        match event:
            case RunStarted():
                self.recipe, self.workspace, self.began = event.recipe, event.workspace, event.time
                for name, title in event.steps:
                    self.steps[name] = StepView(name, title, UP_TO_DATE if name in event.done else PENDING)
            case StepStarted():
                self.steps[event.step] = StepView(
                    event.step, event.title, RUNNING, event.time, 0.0, event.reason, event.log
                )
            case StepProgress() if event.step in self.steps:
                self.steps[event.step].progress = event
            case StepFinished():
                step = self.steps.setdefault(event.step, StepView(event.step, event.title))
                step.state, step.duration_s, step.detail = event.status, event.duration_s, event.detail
            case RunForecast():
                self.forecast = event
            case RunFinished():
                self.ended = event

    def break_off(self, now: float) -> None:
        """Mark steps that still run as stopped: the run ended without reporting them."""
        for step in self.steps.values():
            if step.state == RUNNING:
                step.state, step.duration_s = CANCELLED, max(0.0, now - step.began)

    def of(self, *states: str) -> list[StepView]:
        """Return the steps in one of the states."""
        return [step for step in self.steps.values() if step.state in states]


def choose(steps: Sequence[StepView], room: int) -> tuple[list[StepView], bool]:
    """Return which steps fit into ``room`` rows, and whether there is room for their second rows.

    Running and failed steps come first, then what was done last and what comes next. One row is kept for the
    number of the steps that are left out.
    """
    if sum(step.rows for step in steps) <= room:
        return list(steps), True
    room = max(room - 1, 0)
    wanted = [step for step in steps if step.state in (RUNNING, FAILED, CANCELLED)]
    whole = sum(step.rows for step in wanted) <= room
    chosen = wanted[:room]
    left = room - sum(step.rows if whole else 1 for step in chosen)
    done = [step for step in steps if step.state in (DONE, UP_TO_DATE)]
    to_do = [step for step in steps if step.state == PENDING]
    ahead = min(len(to_do), max(left // 2, left - len(done)))
    chosen += [*to_do[:ahead], *(done[ahead - left :] if left > ahead else ())]
    names = {step.id for step in chosen}
    return [step for step in steps if step.id in names], whole


class Painter:
    """Draws the state of a run: with the time and the size of the window, what stands there."""

    def __init__(self, terminal: Terminal) -> None:
        self._printable = terminal.printable
        self._marks, self._done, self._spinner, self._bar, self._dot = (
            _UNICODE if terminal.unicode else _ASCII
        )
        self._overflow: OverflowMethod = "ellipsis" if terminal.unicode else "crop"

    def frame(self, run: RunView, now: float, rows: int, columns: int) -> RenderableType:
        """Return the picture of a run that goes on, in fewer than ``rows`` rows."""
        footer = [self._footer(run, now)] if rows >= _FOOTER else []
        header = [self._header(run)] if rows >= _HEADER else []
        steps = list(run.steps.values())
        # The cursor rests on a line of its own below the block.
        chosen, whole = choose(steps, rows - 1 - len(header) - len(footer))
        left = len(steps) - len(chosen)
        more = [self._line(f"  {wording.plural(left, 'more step')}", "dim")] if left and rows > 1 else []
        return Group(*header, self._table(chosen, run, now, columns, whole=whole), *more, *footer, Text())

    def last_frame(self, run: RunView, now: float, columns: int) -> RenderableType:
        """Return the picture that stays: every step that ran, however many rows that takes, and the end."""
        began = [step for step in run.steps.values() if step.state != PENDING]
        # Whole, to be read and copied: nothing is drawn over these any more.
        failed = [
            Text(self._say(f"{step.id}: {text}"), _STYLES[FAILED], overflow="fold", no_wrap=False)
            for step in began if step.state == FAILED
            for text in (step.detail, f"log: {step.log}" if step.log else "") if text
        ]  # fmt: skip
        left = len(run.steps) - len(began)
        idle = [self._line(f"  {self._marks[PENDING]} {wording.plural(left, 'step')} not started", "dim")]
        if run.ended is None:
            end = self._line(f"interrupted after {wording.duration(now - run.began)}", "bold yellow")
        else:
            end = self._line(wording.run_finished(run.ended), _STYLES.get(run.ended.status, "bold yellow"))
        table = self._table(began, run, now, columns, whole=False, last=True)
        return Group(self._header(run), table, *(idle if left else ()), *failed, end)

    def _table(
        self,
        steps: Iterable[StepView],
        run: RunView,
        now: float,
        columns: int,
        *,
        whole: bool,
        last: bool = False,
    ) -> RenderableType:
        names = max((cell_len(self._say(name)) for name in run.steps), default=1)
        table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False, expand=True)
        table.width = min(columns, _WIDEST)
        table.add_column(no_wrap=True, overflow=self._overflow, width=min(names, _LONGEST_ID) + 4)
        table.add_column(no_wrap=True, overflow=self._overflow, ratio=1)
        table.add_column(no_wrap=True, justify="right")
        for step in steps:
            style = _STYLES.get(step.state, "")
            title = Text(self._say(step.title), "dim" if step.state in (PENDING, UP_TO_DATE) else "")
            if step.state == FAILED and step.detail and not last:
                title.append(f": {self._say(step.detail)}", style)
            below = [self._activity(step, now, columns)] if whole and step.rows > 1 else []
            name = Text(f"  {self._mark(step, now)} {self._say(step.id)}", style)
            table.add_row(name, Group(title, *below), Text(self._took(step, now, whole), "dim"))
        return table

    def _took(self, step: StepView, now: float, whole: bool) -> str:
        if step.state == RUNNING:
            counted = step.progress if step.progress is not None and step.progress.total > 0 else None
            percent = f"{wording.percent(counted)}%  " if counted is not None and not whole else ""
            return percent + wording.clock(now - step.began)
        if step.state in (UP_TO_DATE, PENDING):
            return "up to date" if step.state == UP_TO_DATE else ""
        return wording.duration(step.duration_s)

    def _mark(self, step: StepView, now: float) -> str:
        if step.state == RUNNING:
            return self._spinner[int(max(0.0, now) * _FRAMES_PER_S) % len(self._spinner)]
        return self._marks.get(step.state, self._done)

    def _activity(self, step: StepView, now: float, columns: int) -> Text:
        """Return the second row of a step: its log, what it works on, or a bar with how much is done."""
        progress = step.progress
        if step.state == FAILED:
            return self._line(f"log: {step.log}", "dim")
        if progress is None or progress.total <= 0:
            detail = progress.detail if progress is not None and progress.detail else step.detail
            return self._line(detail, "dim")
        cells = min(max(columns // 8, 6), 30)
        full = cells * wording.percent(progress) // 100
        # Of one width while it counts, so that what follows stands still.
        counted, widest = (
            wording.counted(done, progress.total, self._say(progress.unit))
            for done in (progress.done, progress.total)
        )
        # The estimate runs on between two events, down to nothing rather than to zero.
        left = progress.eta_s - max(0.0, now - progress.time)
        parts = [
            wording.rate(progress.rate, progress.unit),
            f"ETA {wording.clock(left)}" if left >= 1 else "",
        ]
        return Text.assemble(
            (self._bar[0] * full, "green"), (self._bar[1] * (cells - full), "dim"),
            f"  {counted.rjust(len(widest))} {wording.percent(progress):3d}%",
            ("".join(f"  {part}" for part in parts if part), "cyan"),
            (f"  {self._say(progress.detail)}", "dim"),
            no_wrap=True, overflow=self._overflow,
        )  # fmt: skip

    def _header(self, run: RunView) -> Text:
        return self._line(run.recipe, "bold").append(f"  {self._say(run.workspace)}", "dim")

    def _footer(self, run: RunView, now: float) -> Text:
        failed = len(run.of(FAILED))
        parts = [
            f"{len(run.of(DONE, UP_TO_DATE))} of {wording.plural(len(run.steps), 'step')} done",
            f"{failed} failed" if failed else "",
            wording.clock(now - run.began),
            wording.left(run.forecast) if run.forecast else "",
            "Ctrl-C stops; run again to resume",
        ]
        return self._line(self._dot.join(part for part in parts if part), "dim")

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
        self.terminal = terminal
        self.level = level
        self._clock = clock
        self._run = RunView()
        self._painter = Painter(terminal)
        self._above: list[Text] = []
        self._over = False
        self._console = Console(
            file=terminal.stream, force_terminal=True, color_system="standard" if terminal.color else None,
            no_color=not terminal.color, legacy_windows=False, highlight=False,
        )  # fmt: skip
        self._live = Live(
            console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False,
            get_renderable=self._picture,
        )  # fmt: skip

    def emit(self, event: Event) -> None:
        """Take one event; it is drawn at the next tick."""
        self._run.apply(event)
        if isinstance(event, RunStarted):
            self._resize()
            self._live.start()
            # Whatever ends the program, SIGKILL included, leaves a terminal that needs no repair.
            self._console.show_cursor(True)
        elif isinstance(event, Notice):
            self._say_above(wording.notice(event), _STYLES.get(event.level, ""))
        elif isinstance(event, StepOutput) and self.level is Level.VERBOSE:
            self._say_above(f"{event.step} | {one_line(event.line)}")
        elif isinstance(event, RunFinished):
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
        self._run.break_off(self._clock())
        self.tick()
        self._live.stop()

    def _say_above(self, text: str, style: str = "") -> None:
        self._above.append(Text(self.terminal.printable(clean(text).rstrip("\n")), style))
        if not self._live.is_started:
            self.tick()

    def _resize(self) -> None:
        columns, rows = self.terminal.size()
        # A row that is full would wrap in some terminals.
        self._console.size = ConsoleDimensions(max(columns - 1, 1), rows)

    def _picture(self) -> RenderableType:
        rows, columns, now = self._console.height, self._console.width, self._clock()
        if self._over:
            return self._painter.last_frame(self._run, now, columns)
        return self._painter.frame(self._run, now, rows, columns)

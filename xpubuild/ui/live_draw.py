"""Draws the state of a run as lines of rich text. Pure: state, time and size in, lines out."""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len
from rich.text import Text

from xpubuild.engine.events import StepProgress
from xpubuild.frozen import frozen
from xpubuild.ui import format as show
from xpubuild.ui import live_state as state
from xpubuild.ui import wording
from xpubuild.ui.live_rows import Row, choose_rows
from xpubuild.ui.live_state import RunView, StepView
from xpubuild.ui.terminal import one_line

_FRAMES_PER_S = 8
#: A window with fewer rows needs them for the steps.
_ROWS_FOR_FOOTER = 3
_ROWS_FOR_HEADER = 7
_ROWS_FOR_LONGEST = 10
#: The time of a step stays near its title in a wide window.
_WIDEST_STEP = 110
#: Cells of a bar by the width of the window: up to the first number, the second, beyond.
_BAR_CELLS = ((100, 10), (140, 20), (100_000, 40))
_LONGEST_ID = 24
_STYLES = {
    state.PENDING: "dim",
    state.RUNNING: "cyan",
    state.DONE: "green",
    state.UP_TO_DATE: "green",
    state.FAILED: "bold red",
    state.CANCELLED: "yellow",
}
_ENDINGS = {"ok": ("finished in", "bold green"), "failed": ("failed after", "bold red")}


@frozen
class Glyphs:
    """The characters of the picture."""

    marks: dict[str, str]
    spinner: str
    full: str
    empty: str
    ellipsis: str
    dot: str


UNICODE = Glyphs(
    marks={
        state.PENDING: "·",
        state.DONE: "✓",
        state.UP_TO_DATE: "✓",
        state.FAILED: "✗",
        state.CANCELLED: "■",
    },
    spinner="⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏",
    full="━",
    empty="─",
    ellipsis="…",
    dot=" · ",
)
ASCII = Glyphs(
    marks={
        state.PENDING: ".",
        state.DONE: "+",
        state.UP_TO_DATE: "+",
        state.FAILED: "x",
        state.CANCELLED: "-",
    },
    spinner="|/-\\",
    full="#",
    empty="-",
    ellipsis="...",
    dot=", ",
)


class Painter:
    """Draws for one width; every line is shorter than ``columns``, so that the terminal never wraps it."""

    def __init__(self, columns: int, glyphs: Glyphs, printable: Callable[[str], str] = str) -> None:
        self.width = max(8, columns - 1)
        self.glyphs = glyphs
        self._printable = printable

    def frame(self, run: RunView, now: float, rows: int) -> list[Text]:
        """Return the picture of a run that goes on, in fewer than ``rows`` lines."""
        # The cursor rests on a line of its own below the block.
        room = rows - 1
        footer = [self._footer(run, now)] if rows >= _ROWS_FOR_FOOTER else []
        slow = wording.longest(run.forecast) if run.forecast is not None else ""
        if slow and rows >= _ROWS_FOR_LONGEST:
            footer.insert(0, self._fit(Text(f"longest: {self._say(slow)}", "dim")))
        header = [self._header(run)] if rows >= _ROWS_FOR_HEADER else []
        chosen = choose_rows(list(run.steps.values()), room - len(header) - len(footer))
        return [*header, *(self._row(row, run, now) for row in chosen), *footer]

    def last_frame(self, run: RunView, now: float) -> list[Text]:
        """Return the picture that stays: every step that ran, however many rows that takes, and the end."""
        lines = [self._header(run)]
        for step in run.steps.values():
            if step.state != state.PENDING:
                lines.append(self._step(step, run, now))
            if step.state == state.FAILED:
                # Whole, to be read and copied: nothing is drawn over these any more.
                words = (step.detail, f"log: {step.log}" if step.log else "")
                lines += [Text(f"    {self._say(text)}", _STYLES[step.state]) for text in words if text]
        left = run.count(state.PENDING)
        if left:
            lines.append(
                self._row(
                    Row(words=f"{show.plural(left, 'step')} not started", state=state.PENDING), run, now
                )
            )
        return [*lines, self._ending(run, now)]

    def _header(self, run: RunView) -> Text:
        return self._fit(
            Text.assemble((self._say(run.recipe), "bold"), ("  " + self._say(run.workspace), "dim"))
        )

    def _footer(self, run: RunView, now: float) -> Text:
        done = run.count(state.DONE, state.UP_TO_DATE)
        parts = [f"{done} of {show.plural(len(run.steps), 'step')} done"]
        failed = run.count(state.FAILED)
        parts += [f"{failed} failed"] if failed else []
        parts.append(show.clock(now - (now if run.began is None else run.began)))
        if run.forecast is not None:
            parts += [
                part for part in (wording.left(run.forecast), show.memory(run.forecast.memory_bytes)) if part
            ]
        parts.append("Ctrl-C stops; run again to resume")
        return self._fit(Text(self.glyphs.dot.join(parts), "dim"))

    def _ending(self, run: RunView, now: float) -> Text:
        if run.ended is None:
            began = now if run.began is None else run.began
            return self._fit(Text(f"interrupted after {show.duration(now - began)}", "bold yellow"))
        words, style = _ENDINGS.get(run.ended.status, ("interrupted after", "bold yellow"))
        return self._fit(Text(f"{words} {show.duration(run.ended.duration_s)}", style))

    def _row(self, row: Row, run: RunView, now: float) -> Text:
        if row.step is None:
            return self._fit(Text(f"  {self.glyphs.marks.get(row.state, ' ')} {row.words}", "dim"))
        if row.below:
            return self._activity(row.step, now)
        return self._step(row.step, run, now, alone=row.alone)

    def _step(self, step: StepView, run: RunView, now: float, *, alone: bool = False) -> Text:
        names = min(max(map(cell_len, map(self._say, run.steps)), default=0), _LONGEST_ID)
        title_style = "dim" if step.state in (state.PENDING, state.UP_TO_DATE) else ""
        left = Text(f"  {self._mark(step, now)} ", _STYLES.get(step.state, ""))
        left.append(_padded(self._say(step.id), names) + "  ", _STYLES.get(step.state, ""))
        left.append(self._say(step.title), title_style)
        if step.state == state.FAILED and run.ended is None and step.detail:
            left.append(f": {self._say(step.detail)}", _STYLES[step.state])
        right = self._right(step, now)
        if alone and step.progress is not None and step.progress.total > 0:
            right = f"{wording.percent(step.progress)}%  {right}"
        room = min(self.width, _WIDEST_STEP)
        if not right:
            return self._fit(left, room)
        room -= cell_len(right) + 1
        left = self._fit(left, room)
        left.append(" " * (room - left.cell_len + 1))
        return self._fit(left.append(right, "dim"))

    def _right(self, step: StepView, now: float) -> str:
        if step.state == state.RUNNING:
            return show.clock(now - step.began)
        if step.state == state.UP_TO_DATE:
            return "up to date"
        return "" if step.state == state.PENDING else show.duration(step.duration_s)

    def _mark(self, step: StepView, now: float) -> str:
        if step.state == state.RUNNING:
            return self.glyphs.spinner[int(max(0.0, now) * _FRAMES_PER_S) % len(self.glyphs.spinner)]
        return self.glyphs.marks.get(step.state, "?")

    def _activity(self, step: StepView, now: float) -> Text:
        progress = step.progress
        line = Text("    ")
        if step.state == state.FAILED:
            return self._fit(line.append(f"log: {self._say(step.log)}", "dim"))
        if progress is None or progress.total <= 0:
            detail = progress.detail if progress is not None and progress.detail else step.detail
            return self._fit(line.append(self._say(detail), "dim"))
        cells = next(cells for width, cells in _BAR_CELLS if self.width < width)
        full = cells * min(max(progress.done, 0), progress.total) // progress.total
        line.append(self.glyphs.full * full, "green").append(self.glyphs.empty * (cells - full), "dim")
        # Of one width while it counts, so that what follows stands still.
        unit = self._say(progress.unit)
        counted = show.counted(progress.done, progress.total, unit)
        widest = show.counted(progress.total, progress.total, unit)
        line.append(f"  {counted.rjust(len(widest))} {wording.percent(progress):3d}%")
        line.append(_pace(progress, now), "cyan")
        return self._fit(line.append(f"  {self._say(progress.detail)}", "dim"))

    def _say(self, text: str) -> str:
        """Return text from outside as it will really stand in the terminal, so that its width is known."""
        return self._printable(one_line(text))

    def _fit(self, text: Text, width: int | None = None) -> Text:
        """Cut the text to the width, with a mark where something was cut off."""
        width = max(1, self.width if width is None else width)
        if text.cell_len > width:
            text = text.copy()
            text.truncate(max(0, width - cell_len(self.glyphs.ellipsis)), overflow="crop")
            text.append(self.glyphs.ellipsis[:width])
        return text


def _pace(progress: StepProgress, now: float) -> str:
    rate = show.rate(progress.rate, progress.unit)
    # The estimate runs on between two events, down to nothing rather than to zero.
    left = progress.eta_s - max(0.0, now - progress.time)
    parts = [rate, f"ETA {show.clock(left)}" if left >= 1 else ""]
    return "".join(f"  {part}" for part in parts if part)


def _padded(text: str, width: int) -> str:
    return text + " " * max(0, width - cell_len(text))

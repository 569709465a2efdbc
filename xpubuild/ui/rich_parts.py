"""Results as rich draws them for a terminal. Long cells are folded at blanks, never cut; commands never.

Where a table is too narrow for its words, each row is drawn as names and values below each other.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import IO

from rich import box
from rich.console import Console, JustifyMethod, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from xpubuild.ui.parts import Commands, Facts, Part, Sentences, Table, by_row, widths_of
from xpubuild.ui.terminal import Terminal, one_line

#: What is longer than a word, a path for example, is folded rather than drawn without a frame.
_LONGEST_WORD = 24
#: What a cell says about a state, and its colour.
_STATES = {
    **dict.fromkeys(("done", "ok", "pass", "up to date", "yes"), "green"),
    **dict.fromkeys(("no", "fail", "failed", "error", "crash", "timeout"), "bold red"),
    **dict.fromkeys(("unknown", "stale", "warn"), "yellow"), "to do": "cyan", "skip": "dim",
}  # fmt: skip


def console_of(terminal: Terminal, stream: IO[str]) -> Console:
    """Return a console that writes to a stream what the terminal can show."""
    return Console(
        file=stream, force_terminal=True, color_system="standard" if terminal.color else None,
        no_color=not terminal.color, width=max(terminal.size()[0], 20), legacy_windows=False, highlight=False,
        markup=False, emoji=False,
    )  # fmt: skip


def render(parts: Iterable[Part], terminal: Terminal) -> str:
    """Return the parts as text with colour codes, with an empty line between them."""
    buffer = io.StringIO()
    console = console_of(terminal, buffer)
    for number, part in enumerate(part for part in parts if part.items):
        if number:
            console.line()
        if part.title:
            title = f"{part.title}:" if isinstance(part, Commands) else part.title
            console.print(_text(terminal, title, "bold"))
        for drawn, whole in _drawn(part, terminal):
            console.print(drawn, soft_wrap=whole)
    # Padding to the right edge would be copied along and wrap in a narrower window.
    return "".join(f"{line.rstrip(' ')}\n" for line in buffer.getvalue().splitlines())


def _drawn(part: Part, terminal: Terminal) -> Iterator[tuple[RenderableType, bool]]:
    """Yield what rich prints of a part, and whether it is left to the terminal to break its lines."""
    match part:
        case Table():
            # The frame takes three cells of each column, and one.
            most = max(terminal.size()[0], 20) - 3 * len(part.columns) - 1
            rows = [
                [terminal.printable(one_line(cell)) for cell in row] for row in (part.headings, *part.items)
            ]
            widths = widths_of(part, rows, most, _LONGEST_WORD)
            if sum(widths) <= most:
                yield _table(part, terminal, widths), False
                return
            for number, row in enumerate(by_row(part)):
                yield from [(Text(), False)] * bool(number)
                yield from _drawn(row, terminal)
        case Facts():
            grid = RichTable.grid(padding=(0, 2))
            grid.add_column(no_wrap=True)
            grid.add_column(overflow="fold")
            for name, value in part.items:
                grid.add_row(_text(terminal, name, "dim"), _text(terminal, value))
            yield grid, False
        case Sentences():
            yield from ((_text(terminal, line), False) for line in part.items)
        case Commands():
            yield from ((Text("  ").append(_text(terminal, line, "cyan")), True) for line in part.items)


def _table(part: Table, terminal: Terminal, widths: list[int]) -> RichTable:
    drawn = RichTable(box=box.ROUNDED if terminal.unicode else box.ASCII, header_style="bold")
    for name, heading, width in zip(part.columns, part.headings, widths, strict=True):
        right: JustifyMethod = "right" if name.startswith(">") else "left"
        drawn.add_column(_text(terminal, heading), justify=right, overflow="fold", width=width)
    for row in part.items:
        drawn.add_row(*[_text(terminal, cell, _STATES.get(cell.split(":")[0], "")) for cell in row])
    return drawn


def _text(terminal: Terminal, words: str, style: str = "") -> Text:
    return Text(terminal.printable(one_line(words)), style)

"""Results as rich draws them for a terminal. Long cells are folded, never cut; commands are never broken."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from xpubuild.ui.parts import Commands, Facts, Part, Records, Sentences, Table
from xpubuild.ui.plain_parts import record_lines
from xpubuild.ui.terminal import Terminal, one_line

#: What a cell says about a state, and its colour.
_STATES = {
    "done": "green",
    "ok": "green",
    "pass": "green",
    "up to date": "green",
    "yes": "green",
    "no": "bold red",
    "unknown": "yellow",
    "to do": "cyan",
    "stale": "yellow",
    "warn": "yellow",
    "skip": "dim",
    "fail": "bold red",
    "failed": "bold red",
    "error": "bold red",
    "crash": "bold red",
    "timeout": "bold red",
}


def render(parts: Sequence[Part], terminal: Terminal) -> str:
    """Return the parts as text with colour codes, with an empty line between them."""
    columns, _ = terminal.size()
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        force_terminal=True,
        color_system="standard" if terminal.color else None,
        no_color=not terminal.color,
        width=max(columns, 20),
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for index, part in enumerate(parts):
        if index:
            console.line()
        _draw(part, console, terminal)
    # Padding to the right edge would be copied along and wrap in a narrower window.
    return "".join(f"{line.rstrip(' ')}\n" for line in buffer.getvalue().splitlines())


def _draw(part: Part, console: Console, terminal: Terminal) -> None:
    if part.title:
        title = f"{part.title}:" if isinstance(part, Commands) else part.title
        console.print(_text(title, terminal, "bold"))
    if isinstance(part, Table):
        console.print(_table(part, terminal))
    elif isinstance(part, Facts):
        console.print(_facts(part, terminal))
    elif isinstance(part, Records):
        _records(part, console, terminal)
    elif isinstance(part, Sentences):
        for line in part.lines:
            console.print(_text(line, terminal))
    else:
        for line in part.lines:
            console.print(Text("  ").append(_text(line, terminal, "cyan")), soft_wrap=True)


def _records(records: Records, console: Console, terminal: Terminal) -> None:
    """Draw each record as the plain form does, the name bold and what is known about it dim."""
    for record in records.items:
        lines = record_lines(replace(record, about=""), console.width)
        name, colon, value = lines[0].partition(":")
        console.print(_text(name, terminal, "bold").append(_text(colon + value, terminal)), soft_wrap=True)
        for line in lines[1:]:
            console.print(_text(line, terminal), soft_wrap=True)
        for line in record_lines(record, console.width)[len(lines) :]:
            console.print(_text(line, terminal, "dim"), soft_wrap=True)


def _table(table: Table, terminal: Terminal) -> RichTable:
    drawn = RichTable(box=box.ROUNDED if terminal.unicode else box.ASCII, header_style="bold", pad_edge=True)
    for column in table.columns:
        drawn.add_column(
            _text(column.name, terminal), justify="right" if column.right else "left", overflow="fold"
        )
    for row in table.rows:
        drawn.add_row(*[_text(cell, terminal, _STATES.get(cell.split(":")[0], "")) for cell in row])
    return drawn


def _facts(facts: Facts, terminal: Terminal) -> RichTable:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items:
        grid.add_row(_text(name, terminal, "dim"), _text(value, terminal))
    return grid


def _text(text: str, terminal: Terminal, style: str = "") -> Text:
    return Text(terminal.printable(one_line(text)), style)

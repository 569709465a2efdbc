"""Results as plain text: aligned with spaces, never truncated, without frames; for pipes and files.

A table is as wide as its cells, a sentence is one line; records are folded at spaces.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence

from xpubuild.ui.parts import Commands, Facts, Part, Record, Records, Sentences, Table
from xpubuild.ui.terminal import clean, one_line

_GAP = "  "
_EMPTY = "-"
_INDENT = "    "
#: Columns that folded text may take: the lines of a mail, of a review and of most editors hold it.
_WIDTH = 96


def render(parts: Sequence[Part]) -> str:
    """Return the parts as text, with an empty line between them."""
    return "\n".join(_part(part) for part in parts)


def cells(text: str) -> int:
    """Return how many columns a terminal gives to ``text``."""
    return sum(_cell(character) for character in text)


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _part(part: Part) -> str:
    if isinstance(part, Table):
        lines = _table(part)
    elif isinstance(part, Facts):
        lines = _facts(part)
    elif isinstance(part, Records):
        lines = [line for record in part.items for line in record_lines(record, _WIDTH)]
    elif isinstance(part, Sentences):
        lines = [one_line(text) for text in part.lines]
    else:
        lines = [f"  {line}" for command in part.lines for line in clean(command).split("\n")]
    title = [f"{one_line(part.title)}:" if isinstance(part, Commands) else one_line(part.title)]
    return "".join(f"{line}\n" for line in [*(title if part.title else []), *lines])


def _table(table: Table) -> list[str]:
    # An empty cell would shift the columns for programs that split at blanks.
    rows = [[one_line(cell) or _EMPTY for cell in row] for row in table.rows]
    rows.insert(0, [one_line(column.name).upper() for column in table.columns])
    widths = [max(cells(row[index]) for row in rows) for index in range(len(table.columns))]
    lines = []
    for row in rows:
        parts = []
        for text, width, column in zip(row, widths, table.columns, strict=True):
            blanks = " " * (width - cells(text))
            parts.append(blanks + text if column.right else text + blanks)
        lines.append(_GAP.join(parts).rstrip())
    return lines


def _facts(facts: Facts) -> list[str]:
    names = [one_line(name) for name, _ in facts.items]
    width = max(map(cells, names), default=0)
    return [
        f"{name}:{' ' * (width - cells(name) + 1)}{one_line(value)}"
        for name, (_, value) in zip(names, facts.items, strict=True)
    ]


def record_lines(record: Record, width: int) -> list[str]:
    """Return a record as lines of at most ``width`` columns; a longer word, such as a URL, is not broken."""
    name, value, about = one_line(record.name), one_line(record.value), one_line(record.about)
    lines = folded(f"{name}: {value or _EMPTY}", width, later=_INDENT)
    return [*lines, *(folded(about, width, first=_INDENT, later=f"{_INDENT}  ") if about else ())]


def folded(text: str, width: int, *, first: str = "", later: str = "") -> list[str]:
    """Return ``text`` folded at blanks alone; ``first`` and ``later`` begin its lines."""
    return textwrap.wrap(
        text,
        max(width, len(later) + 20),
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )

"""Results as data: tables, facts, command lines, sentences, before anything decides how they look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xpubuild.frozen import frozen


@frozen
class Column:
    """A column of a table; numbers stand to the right."""

    name: str
    right: bool = False


@frozen
class Table:
    """Rows of text; each row has one cell per column."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""


@frozen
class Facts:
    """Pairs of name and value, shown below each other."""

    items: tuple[tuple[str, str], ...]
    title: str = ""


@frozen
class Commands:
    """Command lines to be copied, under a title."""

    lines: tuple[str, ...]
    title: str = ""


@frozen
class Sentences:
    """Whole sentences, each beginning on a line of its own."""

    lines: tuple[str, ...]
    title: str = ""


@frozen
class Record:
    """A name with a value, and what is known about them."""

    name: str
    value: str
    about: str = ""


@frozen
class Records:
    """Names and values, each followed by an indented line about it: for texts that fit no column."""

    items: tuple[Record, ...]
    title: str = ""


Part = Table | Facts | Commands | Sentences | Records


@dataclass
class TableBuilder:
    """Collects rows of anything that has a text form; None becomes an empty cell."""

    columns: Sequence[Column | str]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Add a row; missing cells at its end are empty."""
        texts = ["" if cell is None else str(cell) for cell in cells]
        self.rows.append((*texts, *[""] * (len(self.columns) - len(texts))))

    def build(self, title: str = "") -> Table:
        """Return the table."""
        columns = tuple(Column(item) if isinstance(item, str) else item for item in self.columns)
        return Table(columns, tuple(self.rows), title)

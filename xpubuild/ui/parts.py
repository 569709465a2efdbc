"""Results as data (facts, tables, sentences, commands), as plain text and as Markdown.

Plain text, for pipes and files, is aligned with spaces, never cut and without frames; ``rich_parts`` draws
for terminals. What is empty is left out. A table whose words do not fit is a list: a line per cell.
"""

from __future__ import annotations

import functools
import operator
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xpubuild.frozen import frozen
from xpubuild.ui import wording
from xpubuild.ui.terminal import clean, one_line

#: An object of JSON: a document, or a part of one.
Document = Mapping[str, Any]
#: Digits of a commit or digest that are shown.
DIGITS = 12
_EMPTY = "-"
#: A table is folded at blanks to this width, where its words are short enough.
_TABLE_WIDTH = 120
#: All that Markdown or HTML could read as more than text; not ``>=1,<2`` and ``a_b``.
_SPECIAL = re.compile(r"([\\`*\[\]|~#&]|<(?![\d=])|(?<!\w)_|_(?!\w))")


@frozen
class Table:
    """Rows of text, a cell per column; below a heading that begins with ``>`` cells stand to the right."""

    columns: tuple[str, ...]
    items: tuple[tuple[str, ...], ...]
    title: str = ""

    @property
    def headings(self) -> list[str]:
        """The names of the columns."""
        return [name.removeprefix(">") for name in self.columns]


@frozen
class Facts:
    """Pairs of name and value, shown below each other."""

    items: tuple[tuple[str, str], ...]
    title: str = ""


@frozen
class Commands:
    """Command lines to be copied, under a title."""

    items: tuple[str, ...]
    title: str = ""


@frozen
class Sentences:
    """Whole sentences, each beginning on a line of its own."""

    items: tuple[str, ...]
    title: str = ""


Part = Table | Facts | Commands | Sentences
Parts = tuple[Part, ...]


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table of anything that has a text form; what is missing at the end of a row is empty."""
    texts = (tuple(map(_text, row)) for row in rows)
    return Table(tuple(columns), tuple((*row, *[""] * (len(columns) - len(row))) for row in texts), title)


#: What may follow a key and "|" in a column of ``listed``.
_FORMS: Mapping[str, Callable[[Any], str]] = {
    "size": wording.size, "took": wording.duration, "when": wording.when, "short": lambda text: text[:DIGITS],
}  # fmt: skip


def listed(
    title: str, items: Iterable[Document], columns: Mapping[str, str | Callable[[Any], object]]
) -> Table:
    """Return a table with a row per item.

    A column shows what a key of the item has (``id``), or a key of that (``verdict.builds``), as it is or in
    a form (``size_bytes|size``); or what a function returns.
    """
    rows = ([_cell(item, of) for of in columns.values()] for item in items)
    return table(title, tuple(columns), rows)


def _cell(item: Document, of: str | Callable[[Any], object]) -> object:
    if not isinstance(of, str):
        return of(item)
    path, _, form = of.partition("|")
    value: Any = functools.reduce(operator.getitem, path.split("."), item)
    return _FORMS[form](value) if form and value is not None else value


def facts(items: Mapping[str, object], title: str = "") -> Facts:
    """Return the pairs whose value is not empty."""
    texts = ((name, _text(value)) for name, value in items.items())
    return Facts(tuple((name, text) for name, text in texts if text), title)


def _text(value: object) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def plain(parts: Iterable[Part]) -> str:
    """Return the parts as text, with an empty line between them."""
    return "\n".join(_plain(part) for part in parts if part.items)


def _plain(part: Part) -> str:
    lines = [f"{one_line(part.title)}:" if isinstance(part, Commands) else one_line(part.title)]
    match part:
        case Table():
            lines += _aligned(part)
        case Facts():
            names = [f"{one_line(name)}:" for name, _ in part.items]
            width = max(map(cells, names))
            lines += [
                f"{_padded(name, width)} {one_line(value)}"
                for name, (_, value) in zip(names, part.items, strict=True)
            ]
        case Sentences():
            lines += [one_line(text) for text in part.items]
        case Commands():
            lines += [f"  {line}" for command in part.items for line in clean(command).split("\n")]
    return "".join(f"{line}\n" for line in (lines if part.title else lines[1:]))


def cells(text: str) -> int:
    """Return how many columns a terminal gives to ``text``."""
    return sum(
        0 if unicodedata.combining(character) else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def _padded(text: str, width: int, *, right: bool = False) -> str:
    blanks = " " * (width - cells(text))
    return blanks + text if right else text + blanks


def _aligned(part: Table) -> list[str]:
    # An empty cell would shift the columns for programs that split at blanks.
    rows = [[one_line(cell) or _EMPTY for cell in row] for row in part.items]
    rows.insert(0, [one_line(name).upper() for name in part.headings])
    most = _TABLE_WIDTH - 2 * (len(part.columns) - 1)
    widths = widths_of(part, rows, most)
    if len(widths) > 1 and sum(widths) > most:
        return plain(by_row(part)).splitlines()
    lines = []
    for row in rows:
        folded = [
            textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
            if cells(text) > width
            else [text]
            for text, width in zip(row, widths, strict=True)
        ]
        for number in range(max(map(len, folded))):
            texts = (cell[number] if number < len(cell) else "" for cell in folded)
            padded = (
                _padded(text, width, right=name.startswith(">"))
                for text, width, name in zip(texts, widths, part.columns, strict=True)
            )
            lines.append("  ".join(padded).rstrip())
    return lines


def widths_of(part: Table, rows: Sequence[Sequence[str]], most: int, longest: int = 1 << 30) -> list[int]:
    """Return the widths of columns, together ``most`` if that can be.

    The longest texts are folded, but no word of up to ``longest`` cells and no number with its unit.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(cells, column)) for column in columns]
    words = [max(cells(word) for text in column for word in text.split() or [""]) for column in columns]
    words = [
        width if name.startswith(">") else min(word, longest)
        for name, width, word in zip(part.columns, widths, words, strict=True)
    ]
    for index in sorted(range(len(columns)), key=lambda index: words[index] - widths[index]):
        widths[index] -= min(max(sum(widths) - most, 0), widths[index] - words[index])
    return widths


def by_row(part: Table) -> list[Facts]:
    """Return the rows of a table whose words do not fit, each as names and values."""
    return [facts(dict(zip(part.headings, row, strict=True))) for row in part.items]


def markdown(title: str, parts: Iterable[Part], heading: str = "**{}**") -> str:
    """Return a heading, where there is one, and the parts below it, as GitHub shows them."""
    texts = [_markdown(part, heading.format(_escaped(part.title))) for part in parts if part.items]
    return "\n".join([*([f"### {_escaped(title)}\n"] if title else []), *texts]) + "\n" * bool(title)


def _markdown(part: Part, title: str) -> str:
    match part:
        case Table():
            head, *rows = ([_escaped(cell) or _EMPTY for cell in row] for row in (part.headings, *part.items))
            ruler = ["---:" if name.startswith(">") else "---" for name in part.columns]
            lines = [f"| {' | '.join(row)} |" for row in (head, ruler, *rows)]
        case Commands():
            body = "\n".join(clean(line) for line in part.items)
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
            lines = [f"{fence}sh", body, fence]
        case Facts():
            lines = [f"- {_escaped(name)}: {_escaped(value)}" for name, value in part.items]
        case Sentences():
            lines = [f"{_escaped(line)}\n" for line in part.items]
    return "".join(f"{line}\n" for line in ([f"{title}\n", *lines] if part.title else lines))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text))

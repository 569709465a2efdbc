"""Writes results to standard output and errors to standard error.

A terminal gets tables drawn by rich and colours; a pipe gets aligned text that is never cut, without frames.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from xpubuild.errors import XpuBuildError
from xpubuild.ui import error_text, plain_parts
from xpubuild.ui.github import annotation
from xpubuild.ui.parts import Column, Commands, Facts, Part, Records, Sentences, Table, TableBuilder
from xpubuild.ui.terminal import Terminal


def print_json(document: Mapping[str, Any], stream: TextIO | None = None) -> None:
    """Write exactly one JSON document in ASCII, ended by a newline, to standard output.

    Raises:
        TypeError: the document holds something JSON has no form for (a bug of the caller).
        ValueError: it holds NaN or an infinite number, which JSON does not know either.
    """
    text = json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False)
    stream = sys.stdout if stream is None else stream
    stream.write(text + "\n")
    stream.flush()


def show(parts: Iterable[Part], stream: TextIO | None = None, env: Mapping[str, str] | None = None) -> None:
    """Write tables, facts and commands, with an empty line between them, to standard output."""
    terminal = _terminal(stream, env)
    wanted = [part for part in parts if not _is_empty(part)]
    if terminal.live:
        # Only a terminal needs rich, and importing it takes longer than most commands run.
        from xpubuild.ui.rich_parts import render  # noqa: PLC0415

        terminal.write(render(wanted, terminal))
    else:
        terminal.write(plain_parts.render(wanted))


def table(
    columns: Sequence[Column | str],
    rows: Iterable[Sequence[object]],
    *,
    title: str = "",
    stream: TextIO | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Write one table to standard output; None is an empty cell."""
    builder = TableBuilder(columns)
    for row in rows:
        builder.add(*row)
    show([builder.build(title)], stream, env)


def facts(
    items: Mapping[str, object],
    *,
    title: str = "",
    stream: TextIO | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Write names and values to standard output, one pair per line; None is left out."""
    pairs = tuple((name, str(value)) for name, value in items.items() if value is not None)
    show([Facts(pairs, title)], stream, env)


def render_error(
    error: XpuBuildError,
    stream: TextIO | None = None,
    *,
    github: bool = False,
    env: Mapping[str, str] | None = None,
) -> None:
    """Write what happened, why, what to do and to type, the log and its last lines, to standard error.

    ``github`` adds an annotation for GitHub Actions. A stream that cannot be written to is not an error.
    """
    terminal = _terminal(sys.stderr if stream is None else stream, env)
    text = error_text.render(error, terminal)
    if github:
        message = "\n".join(part for part in (error.what, error.why, error.fix, *error.commands) if part)
        text += annotation("error", message, f"xpubuild: {error.code}")
    terminal.try_write(text)


def _is_empty(part: Part) -> bool:
    if isinstance(part, Commands | Sentences):
        return not part.lines
    return isinstance(part, Facts | Records) and not part.items


def _terminal(stream: TextIO | None, env: Mapping[str, str] | None) -> Terminal:
    return Terminal.detect(sys.stdout if stream is None else stream, os.environ if env is None else env)


__all__ = ["Column", "Commands", "Facts", "Table", "facts", "print_json", "render_error", "show", "table"]

"""The summary of a job in GitHub Actions: results of commands as Markdown, each below the one before.

The runner names a file in ``GITHUB_STEP_SUMMARY`` and shows it on the page of the run. It refuses a file
above 1 MiB as a whole (docs.github.com, workflow commands): what would not fit is left out, and said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from xpubuild.errors import XpuBuildError
from xpubuild.ui.console import warn
from xpubuild.ui.parts import Commands, Facts, Part, Records, Sentences, Table
from xpubuild.ui.terminal import clean, one_line

_MOST_BYTES = 1 << 20
_TOO_LONG = "\nThe rest does not fit into a summary; it is in the log of the job.\n"
#: Tables with more rows are folded: what went wrong is to be seen without scrolling.
_OPEN_ROWS = 25
#: All that Markdown or HTML could read as more than text.
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#&])")


def summarise(title: str, parts: Iterable[Part], env: Mapping[str, str] | None = None) -> None:
    """Append a result to the summary of the job, where there is one.

    A file that cannot be written is a warning: the command did what it was asked for.
    """
    named = (os.environ if env is None else env).get("GITHUB_STEP_SUMMARY")
    if not named:
        return
    try:
        with Path(named).open("ab") as file:
            room = _MOST_BYTES - file.tell() - len(_TOO_LONG)
            data = markdown(title, parts).encode("utf-8", "replace")
            if len(data) > room:
                data = data[: max(data.rfind(b"\n", 0, max(room, 0)), 0)] + _TOO_LONG.encode()
            file.write(data)
    except OSError as error:
        warn(f"the summary of the job could not be written: {error.strerror}")


def summarise_error(error: XpuBuildError, env: Mapping[str, str] | None = None) -> None:
    """Append what happened, why, what to do and to type."""
    named = (("why", error.why), ("fix", error.fix), ("likely cause", error.likely_cause()))
    told = [error.what, *(f"{name}: {text}" for name, text in named if text)]
    parts = (Sentences(tuple(told)), Commands(tuple(error.commands), "Next steps"))
    summarise(f"xpubuild: {error.code} (exit code {error.exit_code})", parts, env)


def markdown(title: str, parts: Iterable[Part]) -> str:
    """Return a heading and the parts below it; what has no content is left out."""
    texts = [text for text in map(_part, parts) if text]
    return "\n".join([f"### {_text(title)}\n", *texts]) + "\n"


def _part(part: Part) -> str:
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Commands):
        body = "\n".join(clean(line) for line in part.lines)
        lines = [f"{_fence(body)}sh", body, _fence(body)] if body else []
    elif isinstance(part, Facts):
        lines = [f"- {_text(name)}: {_text(value)}" for name, value in part.items]
    elif isinstance(part, Records):
        lines = [f"- {_text(item.name)}: {_text(item.value)} {_text(item.about)}" for item in part.items]
    else:
        lines = [f"{_text(line)}\n" for line in part.lines]
    title = [f"**{_text(part.title)}**\n"] if part.title and lines else []
    return "".join(f"{line}\n" for line in [*title, *lines])


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    rows = [[_text(cell) for cell in row] for row in table.rows]
    rows.insert(0, [_text(column.name) for column in table.columns])
    rows.insert(1, ["---:" if column.right else "---" for column in table.columns])
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    title = _text(table.title) or f"{len(table.rows)} rows"
    if len(table.rows) > _OPEN_ROWS:
        return f"<details><summary>{title}</summary>\n\n{lines}\n</details>\n"
    return f"**{title}**\n\n{lines}" if table.title else lines


def _text(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text))


def _fence(body: str) -> str:
    longest = max((len(run) for run in re.findall("`+", body)), default=0)
    return "`" * max(3, longest + 1)

"""An error as text: what, why, fix, commands to copy, the log and its end."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from pathlib import Path

from xpubuild.errors import XpuBuildError
from xpubuild.ui.github import harmless
from xpubuild.ui.terminal import Terminal, clean

_TAIL_LINES = 15
_MOST_FINDINGS = 3
_TAIL_BYTES = 64 * 1024
_LONGEST_LINE = 400
_WIDEST = 100


def render(error: XpuBuildError, terminal: Terminal) -> str:
    """Return the error as text that ends with a newline."""
    lines = _paragraph("error: ", error.what, terminal, "bold", "red")
    for name, text in (("why", error.why), ("fix", error.fix)):
        if text:
            lines += _paragraph(f"  {name}: ", text, terminal, "bold")
    if error.commands:
        lines += ["", "  run:"]
        # Never broken into lines: they are copied.
        for command in error.commands:
            lines += [f"      {terminal.paint(line, 'cyan')}" for line in clean(command).split("\n")]
    lines += _said(error)
    lines += _findings(error, terminal)
    lines += _log(error.log, terminal)
    lines.append(terminal.paint(f"  ({error.code}, exit code {error.exit_code})", "dim"))
    return "\n".join(lines) + "\n"


def _paragraph(head: str, text: str, terminal: Terminal, *styles: str) -> list[str]:
    """Return text behind a head, its further lines below its first one."""
    indent = " " * len(head)
    lines: list[str] = []
    for part in clean(text).strip("\n").split("\n"):
        if terminal.live:
            width = min(max(terminal.size()[0] - 1, 30), _WIDEST)
            # Paths and options stay whole.
            wrapped = textwrap.wrap(
                part, width - len(indent), break_long_words=False, break_on_hyphens=False
            ) or [""]
        else:
            wrapped = [part]
        lines += wrapped
    lines = [f"{indent}{line}" for line in lines]
    lines[0] = terminal.paint(head, *styles) + lines[0][len(indent) :]
    return lines


def _said(error: XpuBuildError) -> list[str]:
    """Return the tool's own lines that the error rests on, and the place where they stand."""
    items = error.evidence.get("lines")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items) or not items:
        return []
    place = error.evidence.get("file") or error.log or ""
    lines = ["", f"  {clean(str(place))}, line {items[0].get('line')}:"]
    return lines + [f"    | {harmless(clean(str(item.get('text'))))[:_LONGEST_LINE]}" for item in items]


def _findings(error: XpuBuildError, terminal: Terminal) -> list[str]:
    """Return what explain found in the log, best first."""
    lines: list[str] = []
    for item in list((error.explanation or {}).get("findings") or ())[:_MOST_FINDINGS]:
        head = f"  likely cause ({item['confidence']:.0%}): "
        lines += ["", *_paragraph(head, item["title"], terminal, "bold")]
        lines.append(f"    line {item['line']}: {harmless(clean(item['excerpt']))[:_LONGEST_LINE]}")
        for name in ("cause", "fix"):
            lines += _paragraph(f"    {name}: ", item[name], terminal)
        lines.append(f"    run: {terminal.paint(clean(item['next_command']), 'cyan')}")
        lines.append(f"    from: {clean(', '.join(item['sources'][:2]))}")
    return lines


def _log(log: Path | None, terminal: Terminal) -> list[str]:
    if log is None:
        return []
    lines = ["", f"  log: {clean(str(log))}"]
    # The bar keeps the runner of GitHub Actions from reading a line as its command.
    tail = [f"    | {harmless(line[:_LONGEST_LINE])}" for line in tail_of(log)]
    return lines + [terminal.paint(line, "dim") for line in tail]


def tail_of(log: Path) -> list[str]:
    """Return up to 15 last lines of a log; none where it cannot be read."""
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _TAIL_BYTES))
            data = stream.read(_TAIL_BYTES)
    except OSError:
        return []
    lines = clean(data.decode("utf-8", "replace")).rstrip().split("\n")
    return [line.rstrip() for line in lines[-_TAIL_LINES:]] if lines != [""] else []

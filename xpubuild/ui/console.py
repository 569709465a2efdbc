"""Writes results to standard output and errors to standard error.

A terminal gets tables drawn by rich and colours; a pipe gets aligned text that is never cut, without frames.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from xpubuild.engine.events import Notice
from xpubuild.errors import NoSpaceError, ToolchainError, XpuBuildError
from xpubuild.ui.diagnosis_views import error_text
from xpubuild.ui.parts import Part, plain
from xpubuild.ui.terminal import READER_GONE, Terminal, annotation, clean, disconnect


def print_json(document: Mapping[str, Any], stream: TextIO | None = None) -> None:
    """Write exactly one JSON document to standard output."""
    write_out(json_text(document), stream)


def json_text(document: Mapping[str, Any]) -> str:
    """Return exactly one JSON document in ASCII, ended by a newline.

    Raises:
        TypeError: the document holds something JSON has no form for (a bug of the caller).
        ValueError: it holds NaN or an infinite number, which JSON does not know either.
    """
    return json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def write_out(text: str | bytes, stream: TextIO | None = None) -> None:
    """Write a result to standard output as it is.

    A reader that went away and a terminal that was closed change nothing: what was done is done, and the exit
    code still tells how.

    Raises:
        NoSpaceError, ToolchainError: the result is not where it was wanted, as with a full disk.
    """
    stream = sys.stdout if stream is None else stream
    try:
        if isinstance(text, bytes):
            stream.flush()
            stream.buffer.write(text)
        else:
            stream.write(text)
        stream.flush()
    except OSError as error:
        disconnect(stream)
        if error.errno not in READER_GONE:
            raise _lost(error) from error


def _lost(error: OSError) -> XpuBuildError:
    kind = NoSpaceError if error.errno in (errno.ENOSPC, errno.EDQUOT) else ToolchainError
    return kind(
        "the output could not be written",
        why=f"standard output: {error.strerror}",
        fix="write it to another place; what the command did is done and kept",
    )


def show(parts: Iterable[Part], stream: TextIO | None = None, env: Mapping[str, str] | None = None) -> None:
    """Write tables, facts and commands, with an empty line between them, to standard output."""
    terminal = _terminal(stream, env)
    if terminal.live:
        # Only a terminal needs rich, and importing it takes longer than most commands run.
        from xpubuild.ui.rich_parts import render  # noqa: PLC0415

        text = render(parts, terminal)
    else:
        text = plain(parts)
    write_out(terminal.printable(text), terminal.stream)


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
    text = error_text(error, terminal)
    if github:
        message = "\n".join(part for part in (error.what, error.why, error.fix, *error.commands) if part)
        text += annotation("error", message, f"xpubuild: {error.code}")
    terminal.try_write(text)


def warn(text: str) -> None:
    """Write a warning to standard error, where the events of the command follow it, in the form of these."""
    terminal = _terminal(sys.stderr, None)
    if _wants_json_lines():
        event = Notice(time.time(), "warning", text)
        terminal.try_write(json.dumps(event.to_json()) + "\n")
    else:
        terminal.try_write(clean(f"warning: {text}\n"))


def _wants_json_lines() -> bool:
    """Whether the events are for a program; asked before the options of the command have been read."""
    return os.environ.get("XPUBUILD_LOG_FORMAT") == "jsonl" or any("jsonl" in word for word in sys.argv[1:])


def _terminal(stream: TextIO | None, env: Mapping[str, str] | None) -> Terminal:
    return Terminal.detect(sys.stdout if stream is None else stream, os.environ if env is None else env)

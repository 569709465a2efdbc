"""Writes results to standard output, errors to standard error, and both to the summary of a job.

A terminal gets tables drawn by rich and colours; a pipe gets aligned text that is never cut, without frames.
GitHub Actions names a file for the summary in ``GITHUB_STEP_SUMMARY``; it refuses one above 1 MiB as a whole
(docs.github.com, workflow commands), so what would not fit is left out, with a note.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from xpubuild.engine.events import Notice
from xpubuild.errors import NoSpaceError, ToolchainError, XpuBuildError
from xpubuild.ui.diagnosis_views import error_text
from xpubuild.ui.parts import Commands, Part, Sentences, markdown, plain
from xpubuild.ui.terminal import READER_GONE, Terminal, annotation, clean, disconnect

_MOST_BYTES = 1 << 20
_TOO_LONG = "\nThe rest does not fit into a summary; it is in the log of the job.\n"


def print_json(document: Mapping[str, Any]) -> None:
    """Write exactly one JSON document to standard output."""
    write_out(json_text(document))


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
        if error.errno in READER_GONE:
            return
        kind = NoSpaceError if error.errno in (errno.ENOSPC, errno.EDQUOT) else ToolchainError
        raise kind(
            "the output could not be written",
            why=f"standard output: {error.strerror}",
            fix="write it to another place; what the command did is done and kept",
        ) from error


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
    error: XpuBuildError, stream: TextIO | None = None, *, github: bool = False,
    env: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """Write what happened, why, what to do and to type, the log and its last lines, to standard error.

    ``github`` adds an annotation for GitHub Actions. A stream that cannot be written to is not an error.
    """
    terminal = _terminal(sys.stderr if stream is None else stream, env)
    text = error_text(error, terminal)
    if github:
        message = "\n".join((error.what, *error.reasons().values(), *error.commands))
        text += annotation("error", message, f"xpubuild: {error.code}")
    terminal.try_write(text)


def warn(text: str) -> None:
    """Write a warning to standard error, where the events of the command follow it, in the form of these."""
    # Asked before the options of the command have been read.
    log_format = os.environ.get("XPUBUILD_LOG_FORMAT")
    line = clean(f"warning: {text}")
    if log_format == "jsonl" or any("jsonl" in word for word in sys.argv[1:]):
        line = json.dumps(Notice(time.time(), "warning", text).to_json())
    _terminal(sys.stderr, None).try_write(f"{line}\n")


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
    cause = {"likely cause": error.likely_cause()} if error.likely_cause() else {}
    shown = (f"{name}: {text}" for name, text in {**error.reasons(), **cause}.items())
    parts = (Sentences((error.what, *shown)), Commands(error.commands, "Next steps"))
    summarise(f"xpubuild: {error.code} (exit code {error.exit_code})", parts, env)


def _terminal(stream: TextIO | None, env: Mapping[str, str] | None) -> Terminal:
    return Terminal.detect(sys.stdout if stream is None else stream, os.environ if env is None else env)

"""docs/reference/exit-codes.md, from the error classes."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.errors import EXIT_CODES

_ABOUT = """
Every command exits with one of these codes; their meaning does not change. The name is the `code` of
the error in JSON output ([documents.md](documents.md#error)).

A message says what happened, why, what to do, and where the log is. Exit code 1 means a bug in xpubuild: the
message has the path of a file to attach to the bug report.
"""
_OK = ("0", "", "The command succeeded.")


def page() -> str:
    """Return the page."""
    rows = [_OK]
    for number, kind in sorted(EXIT_CODES.items()):
        text = md.prose(kind.__doc__) if number != 1 else "A bug in xpubuild."
        rows.append((str(number), md.code(kind.code), text))
    return (
        md.head("Exit codes", "xpubuild/errors.py")
        + _ABOUT
        + "\n"
        + md.table(("exit code", "name", "meaning"), rows)
    )

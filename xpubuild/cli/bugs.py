"""What the user sees of a bug: one paragraph and a file to attach to a report, instead of a traceback."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from types import TracebackType


def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Save the traceback to a file and print its path; the exit code stays 1. XPUBUILD_DEBUG=1 prints it."""
    from xpubuild import __version__
    from xpubuild.engine.redact import Redactor

    if issubclass(kind, KeyboardInterrupt):
        # A second Ctrl-C while the first was being told about.
        sys.stderr.write("error: interrupted\n")
        return
    text = "".join(traceback.format_exception(kind, error, trace))
    if os.environ.get("XPUBUILD_DEBUG"):
        sys.stderr.write(text)
        return
    redact = Redactor.from_environment(os.environ)
    text, told = redact(text), redact(str(error))
    where = "the file could not be saved"
    try:
        fd, path = tempfile.mkstemp(prefix="xpubuild-bug-", suffix=".txt")
        with os.fdopen(fd, "w", encoding="utf-8") as stream:
            stream.write(
                f"xpubuild {__version__}, Python {sys.version}\n{list(map(redact, sys.argv))}\n\n{text}"
            )
        where = path
    except OSError:
        pass
    sys.stderr.write(
        f"error: internal error in xpubuild: {kind.__name__}: {told}\n  why: this is a bug in "
        "xpubuild, not in your input; everything built so far is kept\n  fix: report it with "
        f"the file that `xpubuild doctor --bundle report.md` writes; it has the details ({where})\n"
    )

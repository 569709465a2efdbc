"""What a bug looks like to the user: one paragraph and a file to send, instead of a traceback."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from types import TracebackType


def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Keep the traceback in a file and say where; the status stays 1. XPUBUILD_DEBUG=1 shows it whole."""
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
    where = "it could not be saved"
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
        f"error: internal error in xpubuild: {kind.__name__}: {told}\n"
        "  why: this is a bug of xpubuild, not a mistake of yours; what was built so far is kept\n"
        f"  fix: report it together with this file: {where}\n"
    )

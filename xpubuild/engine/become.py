"""Becomes another program: what it does with signals and how it ends is what the caller sees."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from xpubuild.errors import UsageError

#: Python ignores these, which a program started by exec would inherit: `xpubuild run -- yes | head`.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def become(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program that is found on the PATH of ``env``; no shell is in between.

    Raises:
        UsageError: it cannot be started.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    before = [(number, signal.signal(number, signal.SIG_DFL)) for number in _IGNORED_BY_PYTHON]
    try:
        os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606 - the user's own command
    except OSError as error:
        for number, handler in before:
            signal.signal(number, handler)
        raise UsageError(
            f"'{argv[0]}' cannot be run",
            why=error.strerror or str(error),
            fix="check its name; programs are searched on the PATH of the workspace",
        ) from error

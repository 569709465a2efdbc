"""Entry point: ``xpubuild`` and ``python -m xpubuild``."""

from __future__ import annotations

import os
import sys


def _open_missing() -> None:
    """Put the null device where a standard stream is closed: pipes of children must not land there."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def main() -> None:
    """Run the command line and leave with its exit code."""
    from xpubuild.cli.app import run
    from xpubuild.cli.bugs import excepthook

    sys.excepthook = excepthook
    _open_missing()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

"""Entry point: ``xpubuild`` and ``python -m xpubuild``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from xpubuild.cli.app import run
    from xpubuild.cli.bugs import excepthook

    sys.excepthook = excepthook
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

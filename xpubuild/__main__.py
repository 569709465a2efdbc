"""Entry point: ``xpubuild`` and ``python -m xpubuild``."""

from __future__ import annotations

import contextlib
import gc
import os
import sys

# The exit code of errors.InterruptedByUserError: nothing can be imported for it any more.
_INTERRUPTED = 130
# Imports make some 300,000 objects that stay; to look through them again and again takes a tenth of a start.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000


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
    try:
        _open_missing()
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        # pydantic would look through every installed distribution for plug-ins. Of the three words that it
        # knows this one is xpubuild's own: cli.configuration takes it out for the user's commands.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        from xpubuild.cli.app import excepthook, run

        sys.excepthook = excepthook
        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        # Ctrl-C while modules are imported, or a second one while the first is reported.
        sys.stderr.write("error: interrupted\n")
        status = _INTERRUPTED
    if sys.flags.inspect:
        # PYTHONINSPECT: Python would take the end for an error, and read commands from standard input.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    main()

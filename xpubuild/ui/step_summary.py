"""The summary of a job in GitHub Actions: results of commands as Markdown, each below the one before.

The runner names a file in ``GITHUB_STEP_SUMMARY`` and shows it on the page of the run. It refuses a file
above 1 MiB as a whole (docs.github.com, workflow commands): what would not fit is left out, and said.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from xpubuild.errors import XpuBuildError
from xpubuild.ui.console import warn
from xpubuild.ui.parts import Commands, Part, Sentences, markdown

_MOST_BYTES = 1 << 20
_TOO_LONG = "\nThe rest does not fit into a summary; it is in the log of the job.\n"


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
    named = (("why", error.why), ("fix", error.fix), ("likely cause", error.likely_cause()))
    told = [error.what, *(f"{name}: {text}" for name, text in named if text)]
    parts = (Sentences(tuple(told)), Commands(tuple(error.commands), "Next steps"))
    summarise(f"xpubuild: {error.code} (exit code {error.exit_code})", parts, env)

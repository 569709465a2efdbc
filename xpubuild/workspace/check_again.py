"""The command line of the last install of a workspace, to run it again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xpubuild.engine.journal import Journal
from xpubuild.engine.redact import MASK
from xpubuild.errors import UsageError
from xpubuild.workspace.layout import Layout

_INSTALL = "install"
#: What only changes what is shown, or hands out wheels once more.
_FLAGS = frozenset({"--json", "--dry-run", "-v", "--verbose", "-q", "--quiet"})
_WITH_VALUE = frozenset({"--log-format", "--wheel-dir", "--module-dir"})


def install_words(root: Path) -> list[str]:
    """Return the arguments of ``install`` that made the workspace.

    Raises:
        UsageError: the journal does not tell, or a secret was left out of what it tells.
    """
    with Journal(Layout(root).journal, read_only=True) as journal:
        runs: list[dict[str, Any]] = journal.runs()
    words = next((_arguments(run["argv"]) for run in reversed(runs) if _INSTALL in run["argv"][:3]), None)
    if words is None or any(MASK in word for word in words):
        shown = shlex.join(words) if words else (runs[-1]["recipe"] if runs else "RECIPE")
        raise UsageError(
            f"the damaged parts of {root} were removed, and the last install cannot be run again from here",
            why="its command line has a secret, which is not written down" if words else "it is not known",
            fix="run the install again: it makes what was removed, and nothing else",
            commands=(f"xpubuild install {shown} --workspace {shlex.quote(str(root))}",),
        )
    return [*words, "--workspace", str(root), "--quiet"]


def _arguments(argv: Sequence[str]) -> list[str]:
    words = list(argv[argv.index(_INSTALL) + 1 :])
    kept: list[str] = []
    while words:
        word = words.pop(0)
        if word in _WITH_VALUE:
            del words[:1]
        elif word not in _FLAGS and word.partition("=")[0] not in _WITH_VALUE:
            kept.append(word)
    return kept

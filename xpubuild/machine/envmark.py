"""The mark in an environment that xpubuild creates: whether it is complete, and what it was created for.

It is written before anything else and again at the end, so an interrupted environment is marked as not ready,
and a folder without a mark was not made by xpubuild.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.engine.files import write_atomic
from xpubuild.engine.temporary import DRAFT
from xpubuild.errors import UsageError

MARK = ".xpubuild-env.json"


def check_name(env: Path) -> None:
    """Refuse a path that cannot be on PATH, or that pip and CMake would cut.

    Raises:
        UsageError: it holds a colon, a semicolon or a line break.
    """
    if any(character in str(env) for character in (os.pathsep, ";", "\n")):
        raise UsageError(
            f"no environment can be created in {env}",
            why=f"its path has a '{os.pathsep}' or a line break, which PATH does not allow, or a ';',"
            " at which pip and CMake cut it",
            fix="use another --workspace",
        )


def read_mark(env: Path) -> dict[str, Any] | None:
    """Return what the mark says; None where there is none that can be read."""
    try:
        document = json.loads((env / MARK).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def write_mark(env: Path, document: Mapping[str, Any]) -> None:
    """Write the mark, whole or not at all."""
    write_atomic(env / MARK, json.dumps(document, indent=1, sort_keys=True).encode() + b"\n")


def require_ours(env: Path) -> None:
    """Refuse a folder with anything in it that xpubuild did not make.

    Raises:
        UsageError: there is such a thing; nothing is touched.
    """
    if not os.path.lexists(env) or read_mark(env) is not None:
        return
    # Killed before the first mark was in place, this program leaves an empty folder or the mark's draft.
    drafts = (f".{MARK}.", DRAFT)  # the first is how 0.1 named them
    if env.is_dir() and all(e.name.startswith(drafts) and e.name != MARK for e in env.iterdir()):
        return
    raise UsageError(
        f"{env} already exists and was not created by xpubuild",
        why="xpubuild does not change files that it did not make",
        fix="use another --workspace, or move that folder away",
    )

"""The mark in an environment that xpubuild makes: whose it is, whether it is whole, and what it was made for.

It is written before anything else and again when all is there, so a kill leaves an environment that says it
is not ready, and a folder without a mark is somebody else's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.engine.files import write_atomic
from xpubuild.errors import UsageError

MARK = ".xpubuild-env.json"


def check_name(env: Path) -> None:
    """Refuse a path that cannot be on PATH.

    Raises:
        UsageError: it holds a colon or a line break.
    """
    if os.pathsep in str(env) or "\n" in str(env):
        raise UsageError(
            f"no environment can be made in {env}",
            why=f"its path holds '{os.pathsep}' or a line break, and PATH cannot name such a folder",
            fix="choose another --workspace",
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
    if env.is_dir() and all(entry.name.startswith(f".{MARK}.") for entry in env.iterdir()):
        return
    raise UsageError(
        f"{env} is in the way",
        why="it holds files that xpubuild did not make, and they are left as they are",
        fix="choose another --workspace, or move that folder away",
    )

"""Errors of SQLite as the user reads them."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from xpubuild.errors import NoSpaceError, ToolchainError

_PROBE_BYTES = 1 << 18


def _is_full(error: Exception, folder: Path) -> bool:
    if "full" in str(error):
        return True
    if "disk I/O error" not in str(error):
        return False
    # SQLite calls a full disk that where it enlarges its shared index; a failing disk has the same name.
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as reason:
        return reason.errno in (errno.ENOSPC, errno.EDQUOT)
    return False


def translated(error: Exception, path: Path) -> NoSpaceError | ToolchainError:
    """Return what a user should read about a database at ``path``."""
    if _is_full(error, path.parent):
        return NoSpaceError(
            "no space left while writing the journal",
            why=f"{path}: {error}",
            fix="free some space, then run the same command again; finished steps are kept",
        )
    return ToolchainError(
        f"the journal {path} cannot be used",
        why=str(error),
        fix="run the install again: it sets the damaged journal aside, and checks or rebuilds every step",
    )

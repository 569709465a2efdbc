"""Entries of RPATH, as text: ``$ORIGIN`` and the way from a member's folder to another."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

_ORIGIN = re.compile(r"\$ORIGIN|\$\{ORIGIN\}")


def relative(start: str, folder: str) -> str:
    """Return the entry that leads from one folder of a wheel to another."""
    way = posixpath.relpath(folder or ".", start or ".")
    return "$ORIGIN" if way == "." else f"$ORIGIN/{way}"


def leads(site_packages: Path, start: str, folder: Path) -> str:
    """Return the entry that leads from a folder of a wheel in ``site_packages`` to one of the environment.

    It holds wherever both are installed into one environment of the same form, which pip's --target is not.
    """
    return f"$ORIGIN/{os.path.relpath(folder, site_packages / start)}"


def below(entry: str, start: str) -> bool:
    """Whether an entry of an object in the folder ``start`` of a wheel stays inside site-packages."""
    if not _ORIGIN.match(entry):
        return False
    way = posixpath.normpath(_ORIGIN.sub(lambda _: start or ".", entry))
    return not way.startswith(("..", "/"))

"""What takes long to make is made once in a run: the workers of xdist wait for the one that makes it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def folder_of_run(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all workers of this run have in common."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def once(root: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder ``name`` below ``root``, made by ``make`` where no earlier call finished it.

    Tests read it; one that writes takes a copy.
    """
    root.mkdir(parents=True, exist_ok=True)
    folder, done = root / name, root / f"{name}.done"
    with FileLock(root / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            done.touch()
    return folder

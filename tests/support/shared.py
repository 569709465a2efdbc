"""What takes long to make is made once in a run: the workers of xdist wait for the one that makes it."""

from __future__ import annotations

import os
import shutil
import tempfile
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


def fetched(kind: str, name: str, fetch: Callable[[Path], None]) -> Path:
    """Return a file, fetched once for all workers and runs that share a cache folder."""
    shared = os.environ.get("XPUBUILD_TEST_CACHE")
    folder = Path(shared) if shared else Path(tempfile.gettempdir()) / f"xpubuild-{kind}-{os.getuid()}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = folder / name
    with FileLock(f"{target}.lock"):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                fetch(Path(scratch))
                (Path(scratch) / name).rename(target)
    return target

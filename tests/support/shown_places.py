"""Scratch workspaces for what is shown of them, and documents without their places."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from support.data_files import dumped, placed
from xpubuild.errors import XpuBuildError

SITE = "lib/python3.12/site-packages"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made).resolve()


def told_in(folder: Path, value: object) -> str:
    plain = _by_lines(json.loads(json.dumps(value, default=str)))
    return dumped(placed(plain, {str(folder): "{folder}"}))


def _by_lines(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _by_lines(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_by_lines(item) for item in value]
    return value.split("\n") if isinstance(value, str) and "\n" in value else value


def error_of(action: Callable[[], object]) -> Any:
    """Return what an action answers, or its error."""
    try:
        return action()
    except XpuBuildError as error:
        return {name: value for name, value in error.to_json().items() if value}


def write_file(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


@contextmanager
def outside(folder: Path) -> Iterator[None]:
    """Give this process the environment of a user whose home is in the folder."""
    names = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR")
    for name in names:
        (folder / "of-user" / name).mkdir(parents=True, exist_ok=True)
    values = {name: str(folder / "of-user" / name) for name in names}
    with mock.patch.dict(os.environ, values), mock.patch.object(tempfile, "tempdir", None):
        yield

"""Fixtures that several modules of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.torch_env import ops_site, torch_env
from integration.verify_support import target
from support.engine import nothing_open

__all__ = ["ops_site", "target", "torch_env"]


@pytest.fixture
def nothing_stays_open() -> Iterator[None]:
    """Fail a test after which a descriptor is open or a child alive."""
    with nothing_open():
        yield


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Make a folder with a name that is not easy."""
    folder = tmp_path / "w\u00f6rk space"
    folder.mkdir()
    return folder

"""Fixtures that several modules of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.sycl_env import sycl_env
from integration.torch_env import ops_site, torch_env
from integration.verify_support import target, warm
from support.conda_tools import CHANNEL, LOCK, channel_and_lock
from support.engine import nothing_open
from support.shared import folder_of_run, once

__all__ = ["ops_site", "sycl_env", "target", "torch_env", "warm"]


@pytest.fixture(scope="session")
def conda(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A channel of conda packages, and the text of its lock."""
    folder = once(folder_of_run(tmp_path_factory), "conda", channel_and_lock)
    return folder / CHANNEL, (folder / LOCK).read_text("utf-8")


@pytest.fixture
def env(tmp_path: Path) -> Path:
    """Return the place of an environment, with a name that is not easy."""
    return tmp_path / "my w\u00f6rk space" / "env"


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

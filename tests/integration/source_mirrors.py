"""Mirrors with short waits, and what a fetch into one says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from xpubuild.engine.environment import base_environment
from xpubuild.errors import FetchError, XpuBuildError
from xpubuild.supply.git.bare import BareRepository, RepositoryStore, Retry
from xpubuild.supply.git.git import Git

FAST = Retry(attempts=4, first_delay_s=0.01, stall_s=20)


def store_in(tmp_path: Path, *, offline: bool = False, retry: Retry = FAST) -> RepositoryStore:
    return RepositoryStore(tmp_path / "cache ü", Git.open(base_environment()), offline=offline, retry=retry)


def noise(seed: int, size: int = 40_000) -> bytes:
    return random.Random(seed).randbytes(size)  # noqa: S311 - does not compress: the pack is longer than a cut


def ensured(mirror: BareRepository, commit: str, ref: str | None = None) -> tuple[bool, list[str]]:
    lines: list[str] = []
    return mirror.ensure(commit, report=lines.append), lines


def refusal(mirror: BareRepository, commit: str) -> XpuBuildError:
    with pytest.raises(FetchError) as caught:
        ensured(mirror, commit)
    error = caught.value
    assert error.exit_code == 30
    assert mirror.url in error.what
    assert error.why
    assert error.fix
    return error

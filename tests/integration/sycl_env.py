"""An environment with Intel's SYCL runtime and OpenCL CPU device, made once and shared."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from integration.torch_env import install, new_env, shared_root
from support.shared import once

SYCL = "2026.2.0"
_PACKAGES = (f"intel-sycl-rt=={SYCL}", f"intel-opencl-rt=={SYCL}")


def must(argv: Sequence[str | Path], env: dict[str, str]) -> None:
    """Run a program that has to succeed."""
    done = subprocess.run(
        [str(word) for word in argv], env=env, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


def _make(folder: Path) -> None:
    new_env(folder)
    install(folder, *_PACKAGES)


@pytest.fixture(scope="session")
def sycl_env(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment; tests read it."""
    return once(shared_root(tmp_path_factory), f"sycl-{SYCL}", _make)

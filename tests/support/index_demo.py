"""A file of a package index and what tests of its transfer ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.indexes import PackageIndex, noise, sha256

NAME = "demo-1.0+cpu-py3-none-any.whl"
PATH = f"/files/{NAME}"
DATA = noise(900_000)


def configure(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Let these be all the settings of pip, proxies and authorities of this process."""
    names = [name for name in os.environ if name.startswith(("PIP_", "SSL_", "REQUESTS_", "CURL_"))]
    names += [name for name in os.environ if name.lower().endswith("_proxy")]
    for name in names:
        monkeypatch.delenv(name)
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_TIMEOUT": "5", "PIP_RETRIES": "2", **variables}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


def remote(index: PackageIndex, *, digest: str | None = sha256(DATA)) -> tuple[str, str | None]:
    return f"{index.at()}/files/{NAME.replace('+', '%2B')}", digest


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name != NAME]

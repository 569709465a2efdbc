"""A file of a package index and what tests of its transfer ask for."""

from __future__ import annotations

import os
from pathlib import Path

from support.indexes import PackageIndex, noise, sha256
from xpubuild.supply.index.config import IndexConfig, read_config
from xpubuild.supply.index.files import RemoteFile

NAME = "demo-1.0+cpu-py3-none-any.whl"
PATH = f"/files/{NAME}"
DATA = noise(900_000)


def config_of(**variables: str) -> IndexConfig:
    patience = {"PIP_TIMEOUT": "5", "PIP_RETRIES": "2"}
    return read_config({"PIP_CONFIG_FILE": os.devnull, "HOME": "/nowhere", **patience, **variables})


def remote(index: PackageIndex, *, digest: str | None = sha256(DATA), **more: object) -> RemoteFile:
    url = f"{index.at()}/files/{NAME.replace('+', '%2B')}"
    return RemoteFile("demo", "1.0+cpu", NAME, digest, len(DATA), url, **more)  # type: ignore[arg-type]


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name != NAME]

"""A channel with its lock, and the installation of an environment from it."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from support.conda_channel import SITE, Tiny, make_channel, usual
from support.conda_tools import TOOLCHAIN, solved
from xpubuild.engine.environment import base_environment
from xpubuild.supply.archives import Supply
from xpubuild.supply.conda.environment import make_conda_env
from xpubuild.supply.conda.lockfile import read_lock

#: What ``channel_and_lock`` makes.
CHANNEL, LOCK = "chän nel", "conda-lock.yml"


def channel_and_lock(folder: Path) -> None:
    """Make a channel with what a build needs, and its lock."""
    python_package = Tiny(
        "setuptools", "80.0.0", depends=["python"], subdir="linux-64", files=dist("setuptools", "80.0.0")
    )
    channel = make_channel(folder / CHANNEL, [*usual(), python_package])
    text = solved((*TOOLCHAIN, "setuptools"), [str(channel)], folder / "cache")
    (folder / LOCK).write_text(text, "utf-8")


def dist(name: str, version: str) -> dict[str, bytes | Path]:
    """Return a Python package as conda's builders leave it: RECORD still tells of pip."""
    info = f"{SITE}/{name}-{version}.dist-info"
    inside = f"{name}-{version}.dist-info"
    pip = base64.urlsafe_b64encode(hashlib.sha256(b"pip\n").digest()).rstrip(b"=").decode()
    rows = (
        f"{inside}/INSTALLER,sha256={pip},4\n{inside}/METADATA,,\n{inside}/RECORD,,\n{inside}/REQUESTED,,0\n"
    )
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    return {
        f"{info}/INSTALLER": b"conda",
        f"{info}/METADATA": metadata.encode(),
        f"{info}/RECORD": rows.encode(),
    }


def work(env: Path, text: str, cache: Path, **supply: object) -> bool:
    supply.setdefault("offline", True)
    found = Supply(cache=cache, **supply)  # type: ignore[arg-type]
    return make_conda_env(env, read_lock(text), found, base_environment(), lambda line: None)

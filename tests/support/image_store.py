"""A storage of images of its own, with the base of images in it: what is built from nothing, as root."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .imports import ROOT

BASE, NAME = "debian-12", "docker.io/library/debian:12"


def told(argv: list[str]) -> str:
    """Run a command and return what it prints; its errors go to the terminal."""
    sys.stderr.write(f"$ {' '.join(argv[:6])}\n")
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout


def prepare(folder: Path, suite: str, driver: str) -> Path:
    """Make the storage in ``folder`` and the base that is missing there; return the wheel of xpubuild.

    From then on every builder that is started uses this storage, and no name spaces.
    """
    (folder / "dist").mkdir(parents=True, exist_ok=True)
    if not list((folder / "dist").glob("*.whl")):
        told([sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "dist"), str(ROOT)])
    storage = folder / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "{driver}"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n', "utf-8"
    )
    os.environ.update(CONTAINERS_STORAGE_CONF=str(storage), BUILDAH_ISOLATION="chroot")
    _base(folder, suite)
    return sorted((folder / "dist").glob("*.whl"))[-1]


def _base(folder: Path, suite: str) -> None:
    """Make the base's root file system and import it under the base's name, once."""
    if NAME in told(["buildah", "images", "--format", "{{.Name}}:{{.Tag}}"]).split():
        return
    tree = folder / "base.tar"
    if not tree.exists():
        told(["mmdebstrap", "--variant=minbase", "--include=ca-certificates", suite, str(tree)])
    container = told(["buildah", "from", "scratch"]).strip()
    told(["buildah", "add", "--quiet", container, str(tree), "/"])
    told(["buildah", "commit", "--quiet", "--rm", "--format", "docker", container, NAME])

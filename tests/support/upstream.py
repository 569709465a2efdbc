"""Real upstream sources for tests: the distribution's source archives of PyTorch, torchvision and torchaudio.

They come from the Debian archive that this machine's apt is configured for, through apt's own downloader (its
proxies and mirrors), and are held against the hashes below. They carry no ``.git``: ``repository`` makes a
repository of one, with a commit that is the same on every machine.

The PyTorch archive is repacked by the distribution: its submodules, ``.gitmodules``, ``.gitignore`` and
``.ci`` are left out. The source packages are pytorch, pytorch-vision and pytorch-audio of Debian 13.
"""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from support.indexes import sha256
from support.shared import fetched

Name = Literal["pytorch", "vision", "audio"]
_SUITE = "trixie"
_APT_HELPER = Path("/usr/lib/apt/apt-helper")


@dataclass(frozen=True)
class Archive:
    """One source archive: its path in the pool, its hash, and what version it is."""

    pool: str
    sha256: str
    version: str


ARCHIVES: dict[Name, Archive] = {
    "pytorch": Archive(
        "pool/main/p/pytorch/pytorch_2.6.0+dfsg.orig.tar.xz",
        "099a9601bc40d67656e75735c44abedb0fbe92d08817852ab7472eebb7e6ddff",
        "2.6.0",
    ),
    "vision": Archive(
        "pool/main/p/pytorch-vision/pytorch-vision_0.21.0.orig.tar.gz",
        "0a4a967bbb7f9810f792cd0289a07fb98c8fb5d1303fae8b63e3a6b05d720058",
        "0.21.0",
    ),
    "audio": Archive(
        "pool/main/p/pytorch-audio/pytorch-audio_2.6.0.orig.tar.gz",
        "3335d8fcf58c26acf3c628d751103b59226e01c91847ce56efb2a4e7ae8351ef",
        "2.6.0",
    ),
}


#: Half of PyTorch's files, which no configure of it reads.
NOT_BUILT = ("android", "benchmarks", "docs", "ios", "test")


def source(name: Name, into: Path, without: Sequence[str] = ()) -> Path:
    """Unpack a source tree below ``into``, less some folders, and return it. It is the caller's own copy."""
    archive, leaving = _download(name), [(folder,) for folder in without]
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        with tarfile.open(archive) as packed:
            members = [one for one in packed if Path(one.name).parts[1:2] not in leaving]
            packed.extractall(scratch, members, filter="data")
        (top,) = Path(scratch).iterdir()
        target = into / name
        top.rename(target)
    return target


def repository(name: Name, into: Path, without: Sequence[str] = ()) -> tuple[str, str]:
    """Make a git repository of a source tree at ``into`` and return its path and commit."""
    tree = source(name, into, without)
    return str(tree), commit_all(tree, f"{name} {ARCHIVES[name].version}")


def commit_all(tree: Path, message: str) -> str:
    """Commit everything in ``tree``, ignored files too, with fixed identity and dates; return the commit."""
    if not (tree / ".git").exists():
        _git(tree, "init", "--quiet", "--initial-branch=main")
        _git(tree, "config", "uploadpack.allowAnySHA1InWant", "true")
    _git(tree, "add", "--all", "--force", ".")
    _git(tree, "commit", "--quiet", "--message", message)
    return _git(tree, "rev-parse", "HEAD").strip()


def _git(tree: Path, *arguments: str) -> str:
    who = {
        f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _IDENTITY.items()
    }
    settings = ("-c", "core.autocrlf=false", "-c", "commit.gpgsign=false", "-c", "gc.auto=0")
    done = subprocess.run(
        ["git", *settings, "-C", str(tree), *arguments],
        env={**os.environ, **who},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


_IDENTITY = {"NAME": "tests", "EMAIL": "tests@localhost", "DATE": "1700000000 +0000"}


def _download(name: Name) -> Path:
    archive = ARCHIVES[name]
    target = fetched("upstream", Path(archive.pool).name, lambda into: _fetch(archive, into))
    assert sha256(target.read_bytes()) == archive.sha256, f"{target} is not the archive that is pinned"
    return target


def _fetch(archive: Archive, into: Path) -> None:
    assert _APT_HELPER.exists(), "the sources come through apt; this machine has none"
    problems = []
    for base in dict.fromkeys(_mirrors()):
        argv = [str(_APT_HELPER), "-oAPT::Sandbox::User=root", "download-file"]
        argv += [f"{base.rstrip('/')}/{archive.pool}", str(into / Path(archive.pool).name)]
        argv += [f"SHA256:{archive.sha256}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode == 0:
            return
        problems.append(f"{base}: {done.stderr.strip()}")
    raise AssertionError(f"no configured Debian archive has {archive.pool} ({_SUITE}): {problems}")


def _mirrors() -> Iterator[str]:
    """Yield the archives that this machine's apt is configured with, both formats of sources.list."""
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for place in places:
        text = place.read_text("utf-8", "replace") if place.is_file() else ""
        if place.suffix == ".sources":
            yield from (uri for line in re.findall(r"(?m)^URIs:\s*(.+)$", text) for uri in line.split())
        else:
            yield from re.findall(r"(?m)^deb\s+(?:\[[^]]*\]\s+)?(\S+)", text)

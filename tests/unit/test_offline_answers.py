"""What is asked of a mirror, and what is told of something that nobody can fetch."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from xpubuild.engine.events import Event
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.errors import FetchError, RecipeError
from xpubuild.install.fetch_packages import (
    archive_files,
    conda_files,
    entry_of,
    keep_conda_lock,
)
from xpubuild.install.fetch_sources import Unknown, open_archives, refuse_unknown, require_archives
from xpubuild.install.planner import Archive, Inputs
from xpubuild.supply.archives import Supply
from xpubuild.supply.depot.entries import Entry, FileRecord
from xpubuild.supply.depot.folder import Depot
from xpubuild.supply.index.files import RemoteFile

A, B = "a" * 64, "b" * 64
KNOWN = Archive("torch", "eigen", "https://h.example/eigen-1.tar.gz", A)
UNKNOWN = Archive("torch", "mkl", None)
INPUTS = Inputs("r", "3.11", (), (), (), (), (KNOWN, UNKNOWN))


class Heard:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


def file(name: str, sha256: str) -> RemoteFile:
    return RemoteFile("x", "1", name, sha256, 1, f"https://h.example/{name}")


def test_an_archive_without_a_url_cannot_be_fetched(tmp_path: Path) -> None:
    note = "it is not known from where the build of torch downloads its mkl"
    heard = Heard()
    assert list(open_archives(INPUTS, Teller(heard))) == [note]
    told = [event for event in heard.events if note in str(event)]
    assert len(told) == len(heard.events) == 1
    assert f"{note}; it cannot be fetched" in str(told[0])
    assert "warning" in str(told[0])
    (known,) = archive_files(INPUTS)
    assert (known.url, known.sha256, known.is_archive) == (KNOWN.url, A, True)
    supply = Supply(tmp_path, None, True, Cancel())
    for archive in (UNKNOWN, KNOWN):
        with pytest.raises(FetchError):
            require_archives([archive], supply)
    require_archives([], supply)


def test_a_repository_at_a_commit_that_nobody_knows_is_refused() -> None:
    refuse_unknown([])
    with pytest.raises(FetchError):
        refuse_unknown([Unknown("torch", "https://h.example/x", "the tree does not say")])


def test_a_conda_lock_is_kept_in_a_depot(tmp_path: Path) -> None:
    depot = Depot.open(tmp_path / "mirror", create=True)
    kept = keep_conda_lock(depot, "r", "package: []\n")
    digest = hashlib.sha256(b"package: []\n").hexdigest()
    assert (kept.kind, kept.dist, kept.version, kept.sha256) == ("conda", "r.conda-lock", digest[:12], digest)
    assert (depot.path / kept.files[0].path).read_bytes() == b"package: []\n"
    assert conda_files(None) == []
    with pytest.raises(RecipeError, match="lock"):
        conda_files("[")


def test_an_archive_is_known_by_its_url_where_nothing_states_a_hash() -> None:
    (wanted,) = archive_files(replace(INPUTS, archives=(replace(KNOWN, sha256=None),)))
    ours = Entry(
        "archive", wanted.filename, (FileRecord(f"files/{A}/{wanted.filename}", 1, A),), url=wanted.url
    )
    other = replace(ours, url="https://h.example/other.tar.gz")
    assert entry_of([other, ours], wanted) == ours
    assert entry_of([other], wanted) is None

"""Bytes on the way: resumed, checked, refused."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.index_demo import DATA, NAME, PATH, configure, parts, remote
from support.indexes import PackageIndex, sha256
from support.net import KEEPS_WAITING, slow_server

from xpubuild.engine.process import Cancel
from xpubuild.errors import (
    FetchError,
    InterruptedByUserError,
    RecipeError,
    SourceIntegrityError,
)
from xpubuild.supply.index import transfer
from xpubuild.supply.index.transfer import download


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch)


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    with PackageIndex() as served:
        served.add(NAME, DATA)
        yield served


def test_a_file_arrives_whole_and_is_not_fetched_again(index: PackageIndex, tmp_path: Path) -> None:
    seen: list[int] = []
    into = tmp_path / "my wheels é"
    place = download(*remote(index), into, NAME, on_bytes=seen.append)
    assert place == into / NAME
    assert place.read_bytes() == DATA
    assert place.stat().st_mode & 0o777 == 0o644
    assert min(seen) >= 0
    assert sum(seen) == len(DATA)
    assert parts(into) == []
    again: list[int] = []
    assert download(*remote(index), into, NAME, on_bytes=again.append) == place
    assert again == [len(DATA)]
    assert len(index.asked()) == 1


def test_a_cut_connection_is_carried_on_with(index: PackageIndex, tmp_path: Path) -> None:
    index.faults.cut_after[PATH] = [200_000, 300_000]
    assert download(*remote(index), tmp_path, NAME).read_bytes() == DATA
    ranges = [request.headers.get("range", "") for request in index.requests]
    assert ranges[0] == ""
    starts = [int(text.removeprefix("bytes=").rstrip("-")) for text in ranges[1:]]
    assert len(starts) == 2
    # All that came is kept but for what was on its way in a buffer.
    assert 100_000 < starts[0] <= 200_000
    assert 400_000 < starts[1] <= 500_000


def test_a_server_without_ranges_begins_again(index: PackageIndex, tmp_path: Path) -> None:
    index.faults.cut_after[PATH] = [400_000]
    index.faults.no_ranges = True
    seen: list[int] = []
    assert download(*remote(index), tmp_path, NAME, on_bytes=seen.append).read_bytes() == DATA
    assert min(seen) < 0


def test_another_file_than_the_pinned_one_is_refused_and_not_kept(
    index: PackageIndex, tmp_path: Path
) -> None:
    index.add(NAME, DATA[:-1] + b"?")
    with pytest.raises(SourceIntegrityError) as caught:
        download(*remote(index), tmp_path, NAME)
    error = caught.value
    assert error.exit_code == 31
    assert NAME in error.what
    assert sha256(DATA) in error.why
    assert sha256(DATA[:-1] + b"?") in error.why
    assert list(tmp_path.iterdir()) == []


def test_what_was_cut_leaves_nothing(index: PackageIndex, tmp_path: Path) -> None:
    index.faults.cut_after[PATH] = [200_000] + [0] * 9
    with pytest.raises(FetchError, match=NAME.replace("+", r"\+")):
        download(*remote(index, digest=None), tmp_path, NAME)
    assert list(tmp_path.iterdir()) == []
    index.faults.cut_after[PATH] = []
    (tmp_path / NAME).write_bytes(b"who knows")
    assert download(*remote(index, digest=None), tmp_path, NAME).read_bytes() == DATA


def test_a_busy_server_is_asked_again_and_a_missing_file_is_named(
    index: PackageIndex, tmp_path: Path
) -> None:
    index.faults.status[PATH] = [503, 503]
    assert download(*remote(index), tmp_path, NAME).read_bytes() == DATA
    index.faults.status[PATH] = [404]
    with pytest.raises(FetchError) as caught:
        download(*remote(index), tmp_path / "other", NAME)
    assert "answered 404" in caught.value.why


def test_a_file_of_a_wheel_folder_is_copied_and_checked(tmp_path: Path) -> None:
    folder = tmp_path / "my wheels é"
    folder.mkdir()
    (folder / NAME).write_bytes(DATA)
    into = tmp_path / "into"
    file = ((folder / NAME).as_uri(), sha256(DATA), into, NAME)
    seen: list[int] = []
    assert download(*file, on_bytes=seen.append).read_bytes() == DATA
    assert sum(seen) == len(DATA)
    (into / NAME).unlink()
    (folder / NAME).write_bytes(DATA[::-1])
    with pytest.raises(SourceIntegrityError):
        download(*file)
    (folder / NAME).unlink()
    with pytest.raises(FetchError, match=r"demo-1\.0"):
        download(*file)


def test_a_transfer_can_be_stopped_while_the_server_is_silent(
    index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(monkeypatch, PIP_TIMEOUT="30")
    index.faults.cut_after[PATH] = [300_000]
    index.faults.stall = threading.Event()
    cancel = Cancel()
    seen: list[int] = []

    def on_bytes(more: int) -> None:
        seen.append(more)
        if sum(seen) > 200_000:
            threading.Timer(0.1, cancel.set, ["test"]).start()

    started = time.monotonic()
    with pytest.raises(InterruptedByUserError):
        download(*remote(index), tmp_path, NAME, on_bytes=on_bytes, cancel=cancel)
    assert time.monotonic() - started < 20
    index.faults.stall.set()
    assert not (tmp_path / NAME).exists()


_ON_A_FULL_DISK = """
import os, sys
from pathlib import Path
from xpubuild.errors import XpuBuildError
from xpubuild.supply.index.transfer import download
into, url, name, digest = Path(sys.argv[1]), *sys.argv[2:]
try:
    download(url, digest, into, name)
except XpuBuildError as error:
    print(error.what)
    print((into / name).exists())
    sys.exit(error.exit_code)
"""


def test_a_full_disk_has_its_own_exit_code(index: PackageIndex, tmp_path: Path) -> None:
    disk = tmp_path / "small disk"
    disk.mkdir()
    script = tmp_path / "fetch.py"
    script.write_text(_ON_A_FULL_DISK)
    mount = 'mount -t tmpfs -o size=400k tmpfs "$1" && shift && exec "$@"'
    own_mounts = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    done = subprocess.run(
        [*own_mounts, "sh", "-c", mount, "sh", str(disk), sys.executable, str(script), str(disk),
         *remote(index)[:1], NAME, sha256(DATA)],
        env={**os.environ, "PIP_CONFIG_FILE": os.devnull}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 52, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("name", ["../outside-1.0-py3-none-any.whl", ".hidden.whl", "a/b.whl", "", "a\0.whl"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """Such as a lock that somebody else wrote could have."""
    with pytest.raises(RecipeError, match="not the name of a package file"):
        download("https://x.example/", sha256(DATA), tmp_path, name)


@pytest.mark.parametrize("sent", KEEPS_WAITING.values(), ids=list(KEEPS_WAITING))
def test_a_server_that_keeps_its_client_waiting_holds_it_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: tuple[bytes, ...]
) -> None:
    monkeypatch.setattr(transfer, "_PACE_S", 0.6)
    monkeypatch.setenv("PIP_TIMEOUT", "0.3")
    started = time.monotonic()
    with slow_server(*sent) as url, pytest.raises(FetchError) as error:
        download(f"{url}/{NAME}", None, tmp_path, NAME)
    assert time.monotonic() - started < 10
    assert "KiB came in 0.6 s" in error.value.why
    assert parts(tmp_path) == []

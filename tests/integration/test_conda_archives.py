"""Archives of conda packages: from a mirror or over HTTP, each held against the hashes of the lock."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.conda_channel import Tiny, archive
from support.conda_environments import work
from support.conda_tools import served

from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.supply.archives import Archive
from xpubuild.supply.conda.environment import CondaEnvironmentProof, make_conda_env
from xpubuild.supply.conda.lockfile import read_lock


def test_a_mirror_is_enough(conda: tuple[Path, str], env: Path, tmp_path: Path) -> None:
    channel, text = conda
    elsewhere = text.replace(channel.as_uri(), "https://conda.example.invalid/forge")
    packages = read_lock(elsewhere).packages
    with pytest.raises(FetchError, match=f"{packages[0].filename} and {len(packages) - 1} others") as caught:
        make_conda_env(work(env, elsewhere, tmp_path))
    assert caught.value.exit_code == 30
    assert not env.exists()
    for package in packages[:-1]:
        place = tmp_path / "mirror" / package.sha256 / package.filename
        place.parent.mkdir(parents=True)
        shutil.copy(channel / package.subdir / package.filename, place)

    def find(archive: Archive) -> Path | None:
        found = tmp_path / "mirror" / (archive.sha256 or "") / archive.url.rpartition("/")[2]
        return found if found.is_file() else None

    with pytest.raises(FetchError, match=packages[-1].filename):
        make_conda_env(work(env, elsewhere, tmp_path, find=find))
    place = tmp_path / "mirror" / packages[-1].sha256 / packages[-1].filename
    place.parent.mkdir()
    shutil.copy(channel / packages[-1].subdir / packages[-1].filename, place)
    assert make_conda_env(work(env, elsewhere, tmp_path, find=find)) is True
    CondaEnvironmentProof(str(env), read_lock(elsewhere)).check()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "bit": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "another": lambda data: archive(Tiny("cmake", "3.31.2", files={"bin/cmake": b"#!/bin/sh\necho evil\n"})),
}


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_wrong_archive_in_a_folder_is_found_where_rattler_would_take_it(
    conda: tuple[Path, str], env: Path, tmp_path: Path, damage: str
) -> None:
    channel = tmp_path / "copy"
    shutil.copytree(conda[0], channel)
    text = conda[1].replace(conda[0].as_uri(), channel.as_uri())
    path = channel / "linux-64" / "cmake-3.31.2-0.conda"
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.raises(SourceIntegrityError, match=r"cmake-3\.31\.2-0\.conda is another file") as caught:
        make_conda_env(work(env, text, tmp_path))
    assert caught.value.exit_code == 31
    assert not (env / "bin").exists()
    shutil.copy(conda[0] / "linux-64" / path.name, path)
    assert make_conda_env(work(env, text, tmp_path)) is True


class TestOverHttp:
    def test_archives_are_fetched_once_and_a_damaged_copy_again(
        self, conda: tuple[Path, str], env: Path, tmp_path: Path
    ) -> None:
        channel, text = conda
        with served(channel) as url:
            text = text.replace(channel.as_uri(), url)
            assert make_conda_env(work(env, text, tmp_path / "cache", offline=False)) is True
            copies = sorted((tmp_path / "cache").glob("*/*"))
            assert len(copies) == len(read_lock(text).packages)
            copies[0].write_bytes(copies[0].read_bytes()[:-3])
            shutil.rmtree(env)
            assert make_conda_env(work(env, text, tmp_path / "cache", offline=False)) is True
        shutil.rmtree(env)
        assert make_conda_env(work(env, text, tmp_path / "cache")) is True

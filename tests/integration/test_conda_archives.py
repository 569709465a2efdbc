"""Archives of conda packages: from a mirror or over HTTP, each held against the hashes of the lock."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.conda_channel import VERSION, Tiny, archive, make_channel, usual
from support.conda_tools import CONDA_LOCK, TOOLCHAIN, conda_locker, served, solved, work

from xpubuild.engine.environment import base_environment
from xpubuild.errors import (
    FetchError,
    RecipeError,
    SourceIntegrityError,
    ToolchainError,
    UnsatisfiableError,
)
from xpubuild.supply.archives import Supply, bring
from xpubuild.supply.conda.environment import CondaEnvironmentProof
from xpubuild.supply.conda.lockfile import read_lock, resolve, write_lock
from xpubuild.supply.conda.solve import (
    CondaLocker,
    CxxNeed,
    Wanted,
    find_conda_lock,
    machine_need,
    make_lock,
    provided,
)
from xpubuild.supply.depot.entries import Entry, index_of
from xpubuild.supply.depot.folder import Depot


def test_a_mirror_is_enough(conda: tuple[Path, str], env: Path, tmp_path: Path) -> None:
    channel, text = conda
    elsewhere = text.replace(channel.as_uri(), "https://conda.example.invalid/forge")
    packages = read_lock(elsewhere).packages
    with pytest.raises(FetchError, match=f"{packages[0].filename} and {len(packages) - 1} others") as caught:
        work(env, elsewhere, tmp_path)
    assert caught.value.exit_code == 30
    assert not env.exists()
    mirror, entries = Depot.open(tmp_path / "mirror", create=True), list[Entry]()
    for some in (packages[:-1], packages[-1:]):
        if entries:
            with pytest.raises(FetchError, match=packages[-1].filename):
                work(env, elsewhere, tmp_path, mirror=mirror.path)
        with mirror.writing():
            for package in some:
                shutil.copy(channel / package.subdir / package.filename, tmp_path)
                entries.append(mirror.add_file(tmp_path / package.filename))
            mirror.publish(index_of(entries, ()))
    assert work(env, elsewhere, tmp_path, mirror=mirror.path) is True
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
        work(env, text, tmp_path)
    assert caught.value.exit_code == 31
    assert not (env / "bin").exists()
    shutil.copy(conda[0] / "linux-64" / path.name, path)
    assert work(env, text, tmp_path) is True


class TestOverHttp:
    def test_archives_are_fetched_once_and_a_damaged_copy_again(
        self, conda: tuple[Path, str], env: Path, tmp_path: Path
    ) -> None:
        channel, text = conda
        with served(channel) as url:
            text = text.replace(channel.as_uri(), url)
            assert work(env, text, tmp_path / "cache", offline=False) is True
            copies = sorted((tmp_path / "cache").glob("*/*"))
            assert len(copies) == len(read_lock(text).packages)
            copies[0].write_bytes(copies[0].read_bytes()[:-3])
            shutil.rmtree(env)
            assert work(env, text, tmp_path / "cache", offline=False) is True
        shutil.rmtree(env)
        assert work(env, text, tmp_path / "cache") is True


# ---- The proofs of a conda environment: what was changed afterwards, libstdc++


class TestProof:
    @pytest.mark.parametrize(
        ("record", "said"),
        [
            ({"name": "tbb", "version": "1", "files": []}, "tbb is installed, but not in the lock"),
            ({"name": "cmake", "version": "3.31.2", "sha256": "0" * 64}, "cmake is 3.31.2 with sha256 0000"),
        ],
    )
    def test_what_was_changed_afterwards_is_found(
        self, conda: tuple[Path, str], env: Path, tmp_path: Path, record: dict[str, object], said: str
    ) -> None:
        work(env, conda[1], tmp_path)
        (env / "conda-meta" / "zz.json").write_text(json.dumps(record))
        with pytest.raises(ToolchainError) as caught:
            CondaEnvironmentProof(str(env), read_lock(conda[1])).check()
        assert said in caught.value.why

    @pytest.mark.needs("g++")
    def test_a_libstdcxx_older_than_the_driver_needs_is_named(
        self, conda: tuple[Path, str], env: Path, tmp_path: Path
    ) -> None:
        """Small libraries with the names and symbol versions of the real ones."""
        old, new = (library(tmp_path / name, version) for name, version in (("old", "29"), ("new", "32")))
        assert provided(old) == "GLIBCXX_3.4.29"
        host = tmp_path / "host"
        folder = host / "usr/lib64"
        folder.mkdir(parents=True)
        assert machine_need(host) is None
        driver(folder / "libze_intel_gpu.so.1", new)
        assert machine_need(host) == CxxNeed("GLIBCXX_3.4.32", str(folder / "libze_intel_gpu.so.1"))
        assert machine_need() is not None

        brings = {"lib/libstdc++.so.6": old.read_bytes()}
        packages = [replace(p, files=brings) if p.name == "libstdcxx-ng" else p for p in usual()]
        channel = make_channel(tmp_path / "channel", packages)
        text = solved(("python",), [str(channel)], tmp_path / "cache")
        work(env, text, tmp_path)
        proof = CondaEnvironmentProof(str(env), read_lock(text), root=str(host))
        with pytest.raises(ToolchainError, match=r"libstdcxx-ng 15\.2\.0 is older") as caught:
            proof.check()
        assert "GLIBCXX_3.4.29" in caught.value.why
        assert "libze_intel_gpu" in caught.value.why
        assert "a newer libstdcxx-ng" in caught.value.fix
        shutil.copy(new, env / "lib/libstdc++.so.6")
        assert proof.check()["libstdcxx"]["has"] == "GLIBCXX_3.4.32"


def library(folder: Path, minor: str) -> Path:
    """Build a libstdc++.so.6 with one symbol of one version."""
    folder.mkdir()
    (folder / "map").write_text(f"GLIBCXX_3.4.{minor} {{ global: newest; local: *; }};\n")
    (folder / "a.c").write_text("int newest(void) { return 1; }\n")
    made = folder / "libstdc++.so.6"
    argv = ["g++", "-x", "c", "-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libstdc++.so.6", "a.c",
            "-Wl,--version-script,map", "-o", str(made)]  # fmt: skip
    subprocess.run(argv, cwd=folder, check=True)
    return made


def driver(path: Path, stdlib: Path) -> None:
    source = path.parent / "driver.c"
    source.write_text("int newest(void); int use(void) { return newest(); }\n")
    argv = [
        "g++",
        "-x",
        "c",
        "-shared",
        "-fPIC",
        "-nostdlib",
        str(source),
        "-x",
        "none",
        str(stdlib),
        "-o",
        str(path),
    ]
    subprocess.run(argv, check=True)
    source.unlink()


# ---- Locks of a small real channel, solved by py-rattler; what only conda-lock can show, by conda-lock


@pytest.fixture
def channel(conda: tuple[Path, str]) -> Path:
    return conda[0]


def test_the_lock_has_the_toolchain_and_nothing_harmful(channel: Path, tmp_path: Path) -> None:
    text = solved(TOOLCHAIN, [str(channel)], tmp_path / "cache")
    lock = read_lock(text)
    assert {item.name: item.version for item in lock.packages} == {
        "cmake": "3.31.2", "libstdcxx-ng": "15.2.0", "ninja": "1.13.0", "pip": "25.0", "python": VERSION,
    }  # fmt: skip
    assert lock.channels == (channel.as_uri(),)
    assert all(len(item.sha256) == 64 and item.url.startswith(channel.as_uri()) for item in lock.packages)
    assert write_lock(lock) == text


def test_whoever_solves_the_packages_are_the_same(channel: Path, tmp_path: Path) -> None:
    first, second = (
        solved(TOOLCHAIN, [str(channel)], tmp_path / "cache", locker)
        for locker in (None, conda_locker(tmp_path))
    )
    assert first == second


def test_what_conda_lock_cannot_solve_is_explained_by_rattler(channel: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    wanted, locker = Wanted(("cmake >=9",), resolve([str(channel)])), conda_locker(tmp_path)
    with pytest.raises(UnsatisfiableError, match="cannot be installed together"):
        make_lock(
            wanted, locker, environment=base_environment(), cache=tmp_path / "cache", report=lines.append
        )
    assert lines[0] == "conda-lock solves with conda"
    assert lines[1].startswith("conda-lock has no solution: ")


def test_conda_lock_is_run_only_where_a_conda_is_found(tmp_path: Path) -> None:
    assert find_conda_lock({"PATH": str(tmp_path)}) is None
    conda = conda_locker(tmp_path).conda
    for environment in ({"PATH": str(tmp_path)}, {"PATH": "", "CONDA_EXE": conda}):
        assert find_conda_lock(environment) == CondaLocker(str(CONDA_LOCK), conda)


def test_conda_lock_reads_what_we_wrote(channel: Path, tmp_path: Path) -> None:
    text = solved(TOOLCHAIN, [str(channel)], tmp_path / "cache")
    (tmp_path / "conda-lock.yml").write_text(text)
    argv = [str(CONDA_LOCK), "render", "--kind", "explicit", "--platform", "linux-64", "conda-lock.yml"]
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    rendered = (tmp_path / "conda-linux-64.lock").read_text()
    for package in read_lock(text).packages:
        assert f"{package.url}#{package.md5}" in rendered
    assert len([line for line in rendered.splitlines() if line.startswith("file:")]) == 5


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        (("cmake >=9",), "cmake >=9"),
        (("needs-old", "cmake"), "needs-old"),
    ],
)
def test_what_cannot_be_had_ends_with_the_solvers_reason(
    tmp_path: Path, specs: tuple[str, ...], said: str
) -> None:
    odd = Tiny("needs-old", depends=["libstdcxx-ng <10"])
    channel = make_channel(tmp_path / "channel", [*usual(), odd])
    with pytest.raises(UnsatisfiableError) as caught:
        solved(specs, [str(channel)], tmp_path / "cache")
    assert caught.value.exit_code == 22
    assert said in caught.value.why
    assert caught.value.evidence["packages"] == list(specs)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/c", "file:///no/such/channel"])
def test_a_channel_out_of_reach_is_told_from_a_missing_package(tmp_path: Path, address: str) -> None:
    with pytest.raises(FetchError) as caught:
        solved(("cmake",), [address], tmp_path / "cache")
    assert caught.value.exit_code == 30
    assert address.rpartition("/")[2] in caught.value.why or "Connection refused" in caught.value.why


def test_what_is_no_specification_is_a_fault_of_the_recipe(channel: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError):
        solved(("cmake ake >>",), [str(channel)], tmp_path)


def test_a_harmful_package_that_is_needed_ends_with_22(tmp_path: Path) -> None:
    numpy = Tiny("numpy", depends=["mkl"])
    channel = make_channel(tmp_path / "channel", [*usual(), numpy, Tiny("mkl", "2025.0.0")])
    with pytest.raises(UnsatisfiableError) as caught:
        solved((*TOOLCHAIN, "numpy"), [str(channel)], tmp_path / "cache")
    assert "required by numpy" in caught.value.why


def test_a_login_of_netrc_is_used_and_is_nowhere_afterwards(
    channel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password tk-0123456789\n")
    (tmp_path / ".netrc").chmod(0o600)
    lines: list[str] = []
    with served(channel, login="me:tk-0123456789") as url:
        wanted = Wanted(TOOLCHAIN, resolve([url]))
        text = make_lock(
            wanted, None, environment=base_environment(), cache=tmp_path / "cache", report=lines.append
        )
        archive = read_lock(text).packages[0].archive
        assert bring(archive, Supply(tmp_path / "cache"), lines.append).path.is_file()
    assert archive.url.startswith(f"{url}/linux-64/")
    assert "tk-0123456789" not in text + "".join(lines)

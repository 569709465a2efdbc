"""Small parts that checks share: quotas, places, versions."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from support.doctor_frame import a_context

from xpubuild.doctor.checks.level_zero import older
from xpubuild.doctor.kit import plural
from xpubuild.doctor.look import filesystem, libraries, sites
from xpubuild.doctor.look.companions import companion_version, index_of
from xpubuild.doctor.look.filesystem import Room, Written, quota_room, write_small
from xpubuild.doctor.look.torches import Torch, cuda_of


@pytest.mark.parametrize(
    ("text", "room"),
    [
        ("1 0 0 - 5 0 0 -", Room()), ("1 4 0 - 5 9 0 -", Room(3 * 1024, 4)),
        ("1 4 3 - 5 9 6 -", Room(2 * 1024, 1)),
        ("9* 4 3 - [7] 9 6 -", Room(0, 0)), ("x 4 3 - 5 9 6 -", Room(None, 1)),
        ("1 4 3", Room(2 * 1024, None)),
        ("", Room()),
    ],
)  # fmt: skip
def test_what_a_quota_leaves(text: str, room: Room) -> None:
    assert filesystem._left(text.split()) == room
    assert filesystem._of_lustre(f"Disk quotas\n  Filesystem kbytes\n /lus\n  {text}\n more") == room
    assert filesystem._of_lustre(text) == Room()


def programs(folder: Path, **texts: str) -> dict[str, str]:
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_quota_is_asked_about_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    environ = programs(
        tmp_path, quota=f'echo "$*" > {seen}; pwd >> {seen}; echo; echo other 1 2 2; echo dev 1 5 4 0 2 0 9'
    )
    monkeypatch.setattr(filesystem, "_source", {"/mnt": "dev", "/other": ""}.get)
    work = tmp_path / "work"
    work.mkdir()
    assert quota_room(work, "/mnt", "ext4", environ) == Room(3 * 1024, 7)
    assert seen.read_text() == f"-u -w -p\n{work}\n"
    assert quota_room(work, "/other", "ext4", environ) == Room()
    assert quota_room(work, "/mnt", "ext4", {"PATH": "/nowhere"}) == Room()
    assert quota_room(work, "/mnt", "lustre", {"PATH": "/nowhere"}) == Room()


def test_lustre_is_asked_about_user_and_group(tmp_path: Path) -> None:
    table = "echo Filesystem x; echo /l"
    answers = f"case $2 in -u) {table} 1 9 9 - 1 5 5 -;; -g) {table} 1 4 4 - 1 8 8 -;; esac"
    environ = programs(tmp_path, lfs=f'echo "$*" >> {tmp_path}/seen; {answers}')
    assert quota_room(tmp_path, "/lus", "lustre", environ) == Room(3 * 1024, 4)
    asked = f"quota -u {os.getuid()} /lus\nquota -g {tmp_path.stat().st_gid} /lus\n"
    assert (tmp_path / "seen").read_text() == asked


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_folder_that_takes_no_file(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def draft(_folder: Path) -> None:
        raise OSError(number, "words")

    monkeypatch.setattr(filesystem, "new_draft", draft)
    assert write_small(tmp_path) == Written("is not writable: words", full=number != errno.EROFS)


def test_a_folder_in_which_a_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert write_small(tmp_path, run=True, environ={"PATH": "/usr/bin:/bin"}).problem == ""
    assert list(tmp_path.iterdir()) == []
    really = filesystem.probe
    monkeypatch.setattr(filesystem, "probe", lambda _argv, **more: really(["sh", "-c", "exit 9"], **more))
    assert write_small(tmp_path, run=True).problem == "cannot run programs: exit code 9"
    monkeypatch.setattr(filesystem, "probe", lambda _argv, **more: really([str(tmp_path)], **more))
    assert write_small(tmp_path, run=True).problem.startswith("cannot run programs: ")


def test_names_of_other_case(tmp_path: Path) -> None:
    folder = tmp_path / "aBc"
    folder.mkdir()
    assert not filesystem.ignores_capitals(folder)
    (tmp_path / "AbC").symlink_to("aBc")
    assert filesystem.ignores_capitals(folder)
    assert not filesystem.ignores_capitals(tmp_path / "123")


def test_places_of_an_image(tmp_path: Path) -> None:
    context = a_context(tmp_path, environ={"HOME": "/home/x", "A": "/a:b:/a:/c"})
    assert context.path("/etc") == tmp_path / "etc"
    assert context.path(tmp_path / "etc") == tmp_path / "etc"
    assert (context.shown(tmp_path / "etc"), context.shown(Path("/x"))) == ("/etc", "/x")
    assert context.home == tmp_path / "home/x"
    assert a_context(environ={"HOME": "x"}).home is None
    assert context.listed("A") == (tmp_path / "a", tmp_path / "c")
    assert (plural(0, "x"), plural(1, "x"), plural(2, "x")) == ("0 xs", "1 x", "2 xs")


def torch(version: str = "2.8.0", *, cuda: str = "", hip: str = "", xpu: bool = False) -> Torch:
    python = sites.Site(Path("/p"), (), (), ())
    return Torch(Path("/t"), version, cuda, hip, xpu, None, python)


@pytest.mark.parametrize(
    ("found", "index", "kind"),
    [
        (torch(xpu=True, cuda="12.8"), "xpu", "XPU"), (torch(cuda="12.8"), "cu128", "CUDA 12.8"),
        (torch(cuda="12.8.1"), "cu128", "CUDA 12.8.1"), (torch(hip="6.3.42"), "rocm6.3", "ROCm 6.3.42"),
        (torch(), "cpu", "the CPU"),
    ],
)  # fmt: skip
def test_the_index_of_a_torch(found: Torch, index: str, kind: str) -> None:
    assert (index_of(found), found.kind) == (f"https://download.pytorch.org/whl/{index}", kind)


@pytest.mark.parametrize(
    ("version", "xpu", "companion"),
    [
        ("2.8.0+xpu", True, "0.23.0"), ("2.9.0.dev20250101", True, None), ("2.4.1", True, None),
        ("2.99.0", True, None),
        ("2.8.99", True, None), ("nothing", True, None),
    ],
)  # fmt: skip
def test_the_companion_of_a_torch(version: str, xpu: bool, companion: str | None) -> None:
    assert companion_version(torch(version, xpu=xpu), "torchvision") == companion
    assert companion_version(torch(version, xpu=xpu), "never-heard-of") is None


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("libsycl.so.8", "SYCL"), ("libur_loader.so.0", "unified runtime"),
        ("libur_loader.so.0.12", "unified runtime"),
        ("libmkl_core.so.2", "oneMKL"), ("libmkl_core.so", "oneMKL"), ("libdnnl.so.3", "oneDNN"),
        ("libccl.so.1", "oneCCL"), ("libmpi.so.12", "MPI"), ("libmpicxx.so.12", "MPI"),
        ("libmpi_cxx.so.1", "MPI"),
        ("libmpifort.so.12", "MPI"), ("libtbb.so.12", "TBB"), ("libtbbmalloc_proxy.so.2", "TBB"),
        ("libumf.so.1", "UMF"),
        ("libze_loader.so.1", "Level Zero"), ("libsycl.so", None), ("libze_loader.so.1.20", None),
        ("libx.so.1", None),
    ],
)  # fmt: skip
def test_families_of_libraries(name: str, family: str | None) -> None:
    assert libraries.family_of(name) == family


def test_versions_of_libraries(tmp_path: Path) -> None:
    names = (
        "GLIBCXX_3.4.9",
        "GLIBCXX_3.4.30",
        "CXXABI_1.3.13",
        "GLIBCXX_TUNABLES",
        "GLIBC_2.17",
        "GLIBCXX_LDBL_3.4",
    )
    assert libraries.cxx_versions(names) == {"GLIBCXX_3.4.9", "GLIBCXX_3.4.30", "CXXABI_1.3.13"}
    assert (libraries.newest(names), libraries.newest(names[2:3])) == ("GLIBCXX_3.4.30", "")
    assert (libraries.sycl_major("libsycl.so.8.1"), libraries.sycl_major("x-libsycl.so.8")) == (8, None)
    assert (older("1.8.0", "1.19.2"), older("1.19.2", "1.19.2"), older("v1.2", "1.2.1")) == (
        True,
        False,
        True,
    )
    (tmp_path / "version.py").write_text("x = 1\ncuda: Optional[str] = '12.8'\nhip = None\n")
    assert (cuda_of(tmp_path), cuda_of(tmp_path / "none")) == ("12.8", "")
    assert libraries.elf_of(tmp_path / "none") is None
    assert libraries.elf_of(tmp_path / "version.py") is None

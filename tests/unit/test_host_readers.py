"""Reading a tree: its links stay in it, and what is no plain file of a reasonable size is not read."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from support.doctor_frame import a_context

from xpubuild.machine.drivers import find_drivers
from xpubuild.machine.gpus import find_gpus
from xpubuild.machine.readers import (
    MOST_BYTES,
    entries,
    exists,
    inside,
    link_name,
    read_bytes,
    read_int,
    read_text,
)
from xpubuild.machine.system import os_facts


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a file of this machine that no tree may show."""
    path = tmp_path / "outside" / "secret"
    path.parent.mkdir()
    path.write_text("ID=thismachine\n")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "image ü"
    (folder / "etc").mkdir(parents=True)
    (folder / "usr/lib").mkdir(parents=True)
    return folder


def test_links_of_a_tree_are_those_of_a_chroot(root: Path) -> None:
    (root / "usr/lib/os-release").write_text("ID=image\n")
    (root / "lib").symlink_to("usr/lib")
    (root / "etc/os-release").symlink_to("../lib/os-release")
    (root / "etc/absolute").symlink_to("/etc/os-release")
    (root / "etc/above").symlink_to("../../../../../etc/os-release")
    for name in ("os-release", "absolute", "above"):
        assert inside(root / "etc" / name, root) == root / "usr/lib/os-release"
        assert read_text(root / "etc" / name, root) == "ID=image"
    assert inside(root / "etc/missing/x", root) == root / "etc/missing/x"
    assert [path.name for path in entries(root / "lib", root)] == ["os-release"]


def test_no_reader_leaves_the_tree(root: Path, outside: Path) -> None:
    (root / "etc/file").symlink_to(outside)
    (root / "etc/folder").symlink_to(outside.parent)
    for path in (root / "etc/file", root / "etc/folder/secret", outside, root / "../outside/secret"):
        assert read_text(path, root) is None
        assert read_int(path, root=root) is None
        assert not exists(path, root)
    assert entries(root / "etc/folder", root) == []
    assert link_name(root / "etc/file", root) == "secret"
    assert link_name(root / "etc/folder/x", root) is None
    assert read_text(root / "etc/file") == "ID=thismachine"


def test_paths_of_a_context_lie_in_its_root(root: Path, outside: Path) -> None:
    context = a_context(root)
    (root / "usr/bin").mkdir()
    (root / "usr/bin/ocloc").symlink_to("/bin/true")
    (root / "usr/lib/libze_loader.so.1").symlink_to(outside)
    (root / "etc/alternatives").symlink_to("/usr/lib")
    assert not context.path("/usr/bin/ocloc").exists()
    assert not context.path("/usr/lib/libze_loader.so.1").exists()
    assert context.path("/etc/alternatives/x") == root / "usr/lib/x"
    assert a_context().path("/etc/../etc/mtab") == Path("/etc/../etc/mtab")


def test_the_system_of_an_image_is_not_that_of_this_machine(root: Path, outside: Path) -> None:
    (root / "etc/os-release").symlink_to(outside)
    assert os_facts(root).id == "unknown"
    (root / "usr/lib/os-release").write_text("ID=image\n")
    assert os_facts(root).id == "image"


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "device", "sparse"])
def test_what_is_no_plain_file_of_a_reasonable_size_is_not_read(
    root: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = root / "etc/os-release"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            monkeypatch.chdir(path.parent)  # the whole path may be too long for an address
            listener.bind(path.name)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/zero")
    else:
        path.touch()
        os.truncate(path, MOST_BYTES + 1)
    assert read_text(path) is None
    if kind != "sparse":
        assert read_bytes(path, first=4) is None


def test_a_fifo_and_a_sparse_file_in_the_place_of_databases(root: Path) -> None:
    (root / "var/lib/dpkg").mkdir(parents=True)
    os.mkfifo(root / "var/lib/dpkg/status")
    (root / "etc/apt/sources.list.d").mkdir(parents=True)
    os.mkfifo(root / "etc/apt/sources.list.d/intel.list")
    assert find_drivers(root) == ()
    (root / "var/lib/dpkg/status").unlink()
    (root / "var/lib/dpkg/status").touch()
    os.truncate(root / "var/lib/dpkg/status", 1 << 40)
    assert find_drivers(root) == ()


def test_devices_of_a_tree_are_not_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = root / "sys/bus/pci/devices/0000:29:00.0"
    (device / "drm/renderD128").mkdir(parents=True)
    for name, text in (("vendor", "0x8086"), ("device", "0x0bd5"), ("class", "0x038000")):
        (device / name).write_text(text)
    node = root / "dev/dri/renderD128"
    node.parent.mkdir(parents=True)
    flags: list[int] = []
    really = os.open

    def opened(path: str, how: int, *rest: int) -> int:
        flags.append(how)
        return really(path, how, *rest)

    monkeypatch.setattr("os.open", opened)
    node.symlink_to("/dev/null")
    assert find_gpus(root)[0].accessible is False  # the image has no such device
    node.unlink()
    os.mkfifo(node)
    assert find_gpus(root)[0].accessible is None
    assert not any(how & os.O_RDWR for how in flags)

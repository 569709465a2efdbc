"""Operating system, disk, packages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from xpubuild.machine.disk import disk_facts
from xpubuild.machine.system import OsFacts, install_commands, os_facts, package_names


def lay(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def test_an_unpacked_image(tmp_path: Path) -> None:
    release = (
        '# a comment\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\nPRETTY_NAME=\'Rocky "9"\'\n'
    )
    facts = os_facts(lay(tmp_path / "rootfs ä", {"etc/os-release": release}))
    assert facts == OsFacts(id="rocky", id_like=("rhel", "centos", "fedora"), version="9.4", name='Rocky "9"')
    assert (facts.kernel, facts.libc, facts.container) == ("unknown", "unknown", "unknown")


@pytest.mark.parametrize(
    ("files", "container"),
    [
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({".singularity.d/env/x": ""}, "apptainer"),
        ({"run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn"),
        ({"proc/self/cgroup": "0::/kubepods.slice/x\n"}, "kubernetes"),
        ({"proc/self/cgroup": "0::/\n", "proc/sys/kernel/osrelease": "5.15-microsoft-standard\n"}, "wsl"),
        ({"proc/self/cgroup": "0::/init.scope\n"}, "none"),
        ({}, "unknown"),
    ],
)
def test_containers(tmp_path: Path, files: dict[str, str], container: str) -> None:
    assert os_facts(lay(tmp_path / "r", files)).container == container


def test_disk_of_a_path_that_is_not_there_yet(tmp_path: Path) -> None:
    facts = disk_facts(tmp_path / "not yet" / "würkspace")
    assert facts.path == str(tmp_path.resolve())
    assert facts.free_bytes is not None
    assert facts.total_bytes is not None
    assert 0 < facts.free_bytes < facts.total_bytes
    assert (facts.noexec, facts.read_only) == (False, False)


def test_flags_agree_with_the_kernels_list_of_mounts() -> None:
    points = {}
    for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
        fields = line.split(" ")
        points[fields[4]] = set(fields[5].split(","))  # the last mount on a point is the one that is seen
    seen = {point: disk_facts(Path(point)) for point in points if os.access(point, os.X_OK)}
    assert seen["/proc"].filesystem == "proc"
    # A mount under another one cannot be looked at; the two of every machine can.
    visible = {point for point, facts in seen.items() if facts.mount_point == point}
    assert {"/", "/proc"} <= visible
    for point in visible:
        assert seen[point].noexec is ("noexec" in points[point])


def test_the_innermost_and_last_mount_counts(tmp_path: Path) -> None:
    place = tmp_path / "my disk"
    place.mkdir()
    escaped = str(place).replace(" ", "\\040")
    lay(
        tmp_path,
        {
            "root/proc/self/mountinfo": "1 1 8:1 / / rw - ext4 /dev/a rw\n"
            f"2 1 8:2 / {escaped} rw - xfs /dev/b rw\n"
            f"3 1 8:3 / {escaped} rw shared:1 - lustre x rw\n4 1 8:4 / {escaped}s rw - nfs4 y rw\nshort\n"
        },
    )
    facts = disk_facts(place / "sub", tmp_path / "root")
    assert (facts.filesystem, facts.mount_point) == ("lustre", str(place))
    assert disk_facts(tmp_path, tmp_path / "root").filesystem == "ext4"


@pytest.mark.parametrize(
    ("system", "command"),
    [
        (OsFacts(id="debian"), "sudo apt-get install -y python3.12-dev"),
        (OsFacts(id="linuxmint", id_like=("ubuntu", "debian")), "sudo apt-get install -y python3.12-dev"),
        (OsFacts(id="rocky", id_like=("rhel",)), "sudo dnf install -y python3.12-devel"),
        (OsFacts(id="opensuse-leap", id_like=("suse",)), "sudo zypper install -y python312-devel"),
    ],
)
def test_the_line_to_type(system: OsFacts, command: str) -> None:
    assert install_commands("python-headers", system, "3.12")[-1] == command


def test_an_unknown_distribution_gets_all_names_and_no_command() -> None:
    system = OsFacts(id="gentoo")
    assert install_commands("compiler", system) == ()
    words = package_names("compiler", system)
    assert "gcc g++ (Debian, Ubuntu)" in words
    assert "gcc gcc-c++ (Fedora, RHEL)" in words

"""What readers of the host do at their limits, and what is made of programs that say little."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest
from unit.test_host_capacity import lay
from unit.test_host_pythons_and_tools import script

from xpubuild.machine import host_report as report
from xpubuild.machine import readers
from xpubuild.machine.compilers import locate
from xpubuild.machine.readers import read_bytes
from xpubuild.machine.system import OsFacts, os_facts


def test_large_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MOST_BYTES", 10)
    monkeypatch.setattr(readers, "_CHUNK_BYTES", 4)
    file = tmp_path / "a"
    file.write_bytes(b"0123456789")
    assert (read_bytes(file), read_bytes(file, first=3), read_bytes(file, first=0)) == (
        b"0123456789",
        b"012",
        b"",
    )
    file.write_bytes(b"0123456789a")
    assert (read_bytes(file), read_bytes(file, first=8)) == (None, b"01234567")
    assert read_bytes(Path("/proc/self/status")) is None, "its size says 0"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"etc/os-release": "ID=a\n#ID=b\nBAD\n NAME = 'N n' \nVERSION_ID=\"1\"\nID_LIKE='c  d'\n"},
         OsFacts("a", ("c", "d"), "1", "N n")),
        ({"usr/lib/os-release": "NAME=n\nPRETTY_NAME=p\n"}, OsFacts(name="p")),
        ({"etc/os-release": "ID=a\n", "usr/lib/os-release": "ID=b\n"}, OsFacts("a")),
        ({"etc/os-release": "NAME='x\n", "proc/sys/kernel/osrelease": "6.1 Microsoft\n"},
         OsFacts(name="'x", kernel="6.1 Microsoft", container="wsl")),
        *(({"proc/self/cgroup": f"0::/{word}/x\n"}, OsFacts(container=name)) for word, name in (
            ("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"),
            ("lxc", "lxc"), ("x", "none"))),
        *(({name: "x"}, OsFacts(container=told)) for name, told in (
            (".dockerenv", "docker"), ("run/.containerenv", "podman"), (".singularity.d", "apptainer"),
            ("run/systemd/container", "x"))),
    ],
)  # fmt: skip
def test_systems_of_trees(tmp_path: Path, files: dict[str, str], expected: OsFacts) -> None:
    assert os_facts(lay(tmp_path / "r", files)) == expected


def test_a_question_that_fails_fails_where_its_answer_is_wanted() -> None:
    def ask() -> int:
        raise RuntimeError("no")

    asked = report._begun(ask)
    with pytest.raises(RuntimeError, match="no"):
        report._said(asked, 1e12, 0)
    assert report._said(report._begun(lambda: 3), 1e12, 0) == 3
    assert report._said(Future(), 0.0, 7) == 7


def test_programs_are_not_looked_for_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "cmake", "")
    monkeypatch.chdir(tmp_path)
    assert locate(("cmake", "none"), f".::{tmp_path}") == {"cmake": str(tmp_path / "cmake")}

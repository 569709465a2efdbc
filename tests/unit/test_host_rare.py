"""What readers of the host do at their limits, and what is made of programs that say little."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest
from unit.test_host_capacity import lay

from xpubuild.machine import host_report as report
from xpubuild.machine.system import OsFacts, os_facts


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

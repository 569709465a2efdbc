"""Interpreters and compilers: real ones, and stand-ins that misbehave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from support.files import lay, script

from xpubuild.engine.environment import base_environment
from xpubuild.machine.compilers import parse_compiler
from xpubuild.machine.disk import disk_facts
from xpubuild.machine.host_report import host_report
from xpubuild.machine.pythons import find_pythons, probe_python
from xpubuild.machine.system import OsFacts, install_commands, package_names

GCC_V = """Using built-in specs.
Target: x86_64-redhat-linux
Thread model: posix
gcc version 14.2.1 20240912 (Red Hat 14.2.1-3) (GCC)
"""
CLANG = """Ubuntu clang version 18.1.3 (1ubuntu1)
Target: x86_64-pc-linux-gnu
Thread model: posix
"""
ICX = """Intel(R) oneAPI DPC++/C++ Compiler 2025.3.1 (2025.3.1.20251023)
Target: x86_64-unknown-linux-gnu
InstalledDir: /opt/intel/oneapi/compiler/2025.3/bin/compiler
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GCC_V, ("gcc", "14.2.1", "x86_64-redhat-linux")),
        (CLANG, ("clang", "18.1.3", "x86_64-pc-linux-gnu")),
        (ICX, ("icx", "2025.3.1", "x86_64-unknown-linux-gnu")),
        ("something else 1.2.3", ("unknown", "unknown", "unknown")),
    ],
)
def test_compiler_banners(text: str, expected: tuple[str, str, str]) -> None:
    assert parse_compiler(text) == expected


def test_this_interpreter_is_described_by_running_it() -> None:
    facts = probe_python(Path(sys.executable))
    assert facts.error == ""
    assert facts.version == ".".join(map(str, sys.version_info[:3]))
    assert facts.implementation == "CPython"
    assert facts.bits == 64
    assert facts.virtual is (sys.prefix != sys.base_prefix)
    include = Path(sysconfig.get_path("include"))
    assert facts.headers is (include / "Python.h").is_file()
    assert Path(facts.base_executable).is_file()


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("echo 'pyenv: python3.9: command not found' >&2; exit 127", "command not found"),
        ("echo '{}x'", "{}x"),
        ("true", "code 0"),
        ("kill -SEGV $$", "code -11"),
    ],
)
def test_an_interpreter_stand_in_that_does_not_answer(tmp_path: Path, body: str, word: str) -> None:
    facts = probe_python(script(tmp_path / "python3", body))
    assert word in facts.error
    assert facts.version == "unknown"


def fake_installation(prefix: Path, version: str, *, headers: bool, ensurepip: bool) -> None:
    name = f"python{version}"
    files = {f"bin/{name}": "\x7fELF stand-in", f"lib/{name}/os.py": ""}
    if ensurepip:
        files[f"lib/{name}/ensurepip/__init__.py"] = ""
    if headers:
        files[f"include/{name}/Python.h"] = ""
        files[f"include/{name}/patchlevel.h"] = f'#define PY_VERSION      \t"{version}.7"\n'
    lay(prefix, files)
    (prefix / "bin" / name).chmod(0o755)


def test_interpreters_of_an_image_are_found_without_running_them(tmp_path: Path) -> None:
    root = tmp_path / "image ü"
    fake_installation(root / "usr", "3.11", headers=True, ensurepip=False)
    fake_installation(root / "usr", "3.12", headers=False, ensurepip=True)
    # An absolute link inside an image means a place inside the image.
    (root / "usr/bin/python3").symlink_to("/usr/bin/python3.11")
    (root / "usr/bin/python3-config").write_text("")
    script(root / "usr/local/bin/python3.9", "echo a shim")
    (root / "usr/local/bin/python3.13").symlink_to("../../../../../bin/sh")
    fake_installation(root / "opt/py", "3.10", headers=True, ensurepip=True)
    (root / "usr/bin/python3.10").symlink_to("/opt/py/bin/python3.10")
    (root / "usr/bin/python3.8").symlink_to("python3.8")  # a link to itself
    found = find_pythons("/usr/local/bin:/usr/bin:/nowhere", root)
    assert [(f.executable, f.version, f.headers, f.ensurepip) for f in found] == [
        ("/usr/bin/python3.11", "3.11.7", True, False),
        ("/opt/py/bin/python3.10", "3.10.7", True, True),
        ("/usr/bin/python3.12", "3.12", False, True),
    ]


def test_the_report_of_an_empty_tree_runs_nothing(tmp_path: Path) -> None:
    report = host_report(tmp_path)
    assert (report.gpus, report.compilers, report.tools) == ((), (), ())
    assert report.python.selected is None
    assert report.python.found == ()
    assert report.cpu.usable is None
    assert report.os.id == "unknown"


def test_a_tool_that_babbles_and_one_that_is_stuck_cost_only_their_own_facts(tmp_path: Path) -> None:
    """In a process of its own: what is stuck dies with it."""
    script(tmp_path / "bin/cmake", "exec yes")
    script(tmp_path / "bin/ninja", "echo 1.13.0")
    script(tmp_path / "bin/g++", "trap '' INT TERM; while :; do sleep 1; done")
    script(tmp_path / "bin/python3", "trap '' INT TERM; while :; do sleep 1; done")
    env = {**base_environment(), "PATH": f"{tmp_path}/bin:/bin"}
    program = (
        "import json, sys; from xpubuild.machine import host_report as report; report._DEADLINE_S = 3.0;"
        "json.dump(report.host_report(environment=json.loads(sys.argv[1])).to_json(), sys.stdout)"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(env)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert time.monotonic() - began < 12
    report = json.loads(done.stdout)
    tools = {item["name"]: item["version"] for item in report["tools"]}
    assert tools == {"cmake": "unknown", "ninja": "1.13.0"}
    assert {item["name"]: item["version"] for item in report["compilers"]}["g++"] == "unknown"
    assert report["python"]["selected"]["error"] == "timed out"
    assert report["os"]["id"] != "unknown"


# ---- Operating system, disk, packages


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
    mounts = (
        f"1 1 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / {escaped} rw - xfs /dev/b rw\n"
        f"3 1 8:3 / {escaped} rw shared:1 - lustre x rw\n4 1 8:4 / {escaped}s rw - nfs4 y rw\nshort\n"
    )
    lay(tmp_path, {"root/proc/self/mountinfo": mounts})
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

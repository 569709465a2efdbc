"""The table of distributions: which packages exist where, and the commands that add Intel's repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from xpubuild.distribution import System, install, install_line, install_oneapi, packages, row_of, table
from xpubuild.machine.system import OsFacts, system_of

SYSTEMS = {
    "Debian 12": System(("debian",), "12"),
    "Debian 13": System(("debian",), "13"),
    "Ubuntu 22.04": System(("ubuntu", "debian"), "22.04"),
    "Ubuntu 24.04": System(("ubuntu", "debian"), "24.04"),
    "RHEL 8": System(("rhel", "fedora"), "8.10"),
    "Rocky 9": System(("rocky", "rhel", "centos", "fedora"), "9.5"),
    "SLES 15": System(("sles", "suse"), "15.7"),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_listed_system_has_a_row_with_sources_that_exist(name: str) -> None:
    row = row_of(SYSTEMS[name])
    assert {*row["sources"]} <= {*table()["sources"]}
    # What was tried is said; everything else is the vendor's page.
    assert ("tried" in row) == name.startswith("Debian")


@pytest.mark.parametrize("name", SYSTEMS)
def test_each_command_is_one_that_a_shell_reads(name: str) -> None:
    needs = ("driver", "ocloc", "level-zero-headers", "opencl-headers", "kernel-module", "firmware")
    oneapi = install_oneapi(["intel-deep-learning-essentials"], SYSTEMS[name])
    for line in (*install(needs, SYSTEMS[name]), *oneapi):
        assert "{" not in line, line
        subprocess.run(["sh", "-n"], input=line, text=True, check=True)


def test_debian_12_takes_the_driver_and_ocloc_from_one_package_and_no_unknown_name() -> None:
    assert packages("driver", SYSTEMS["Debian 12"]) == ("intel-opencl-icd", "libze1")
    assert install_line("ocloc", SYSTEMS["Debian 12"]).endswith("install -y intel-opencl-icd")
    assert not any("repositories.intel.com" in line for line in install(("driver",), SYSTEMS["Debian 12"]))


def test_debian_13_is_told_that_there_is_no_driver() -> None:
    (only,) = install(("driver",), SYSTEMS["Debian 13"])
    assert only.startswith("# Debian 13 has a loader (libze1 1.20.6) and no driver")
    assert install_line("driver", SYSTEMS["Debian 13"]) == ""
    # What has packages beside it is installed all the same.
    found = install(("ocloc", "opencl-headers"), SYSTEMS["Debian 13"])
    assert found[0].startswith("# Debian 13 has no package of ocloc")
    assert found[-1] == "sudo apt-get install -y opencl-headers"


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("Ubuntu 22.04", "https://repositories.intel.com/gpu/ubuntu jammy/lts/2523 unified"),
        ("Ubuntu 24.04", "https://repositories.intel.com/gpu/ubuntu noble/lts/2523 unified"),
        ("RHEL 8", "https://repositories.intel.com/gpu/rhel/8.10/lts/2523/unified/intel-gpu-8.10.repo"),
        # Intel has folders for 9.4 and 9.6.
        ("Rocky 9", "https://repositories.intel.com/gpu/rhel/9.4/lts/2523/unified/intel-gpu-9.4.repo"),
        ("SLES 15", "https://repositories.intel.com/gpu/sles/15sp7/lts/2523/unified/intel-gpu-15sp7.repo"),
    ],
)
def test_the_repository_is_added_before_its_packages_and_said_not_to_be_tried(
    name: str, address: str
) -> None:
    lines = install(("driver",), SYSTEMS[name])
    assert lines[0].startswith("#")
    assert "not tried here" in lines[0]
    assert any(address in line for line in lines[1:-1])
    assert "install -y" in lines[-1]


def test_a_repository_that_is_set_up_is_not_added_again(tmp_path: Path) -> None:
    lists = tmp_path / "etc/apt/sources.list.d"
    lists.mkdir(parents=True)
    entry = "deb [arch=amd64] https://repositories.intel.com/gpu/ubuntu jammy/lts/2350 unified\n"
    facts = OsFacts(id="ubuntu", id_like=("debian",), version="22.04")
    (lists / "intel.list").write_text(f"# {entry}")
    assert len(install(("driver",), system_of(facts, tmp_path))) > 2
    (lists / "intel.list").write_text(entry)
    system = system_of(facts, tmp_path)
    assert [line.split()[1] for line in install(("driver",), system)] == ["apt-get", "apt-get"]
    assert len(install_oneapi(["x"], system)) > 2, "oneAPI is in another one"


def test_the_first_lts_has_names_and_an_address_of_its_own() -> None:
    lines = install(("driver", "ocloc"), SYSTEMS["Ubuntu 22.04"], sudo="", first_lts=True)
    assert any("jammy/lts/2350 unified" in line for line in lines)
    assert lines[-1] == "apt-get install -y intel-level-zero-gpu level-zero intel-opencl-icd"


@pytest.mark.parametrize(
    ("version", "first_lts", "folder", "missing"),
    [
        ("9.2", True, "9.2/lts/2350", False),
        ("9.2", False, "9.4/lts/2523", True),
        ("9.6", False, "9.6/lts/2523", False),
        ("9.6", True, "9.5/lts/2350", True),
    ],
)
def test_the_folder_of_rhel_is_that_of_the_stream_and_another_one_is_told(
    version: str, first_lts: bool, folder: str, missing: bool
) -> None:
    lines = install(("driver",), System(("rhel",), version), sudo="", first_lts=first_lts)
    assert any(f"/rhel/{folder}/" in line for line in lines)
    assert (f", which has no folder for {version}, not tried here" in lines[0]) == missing
    assert "which has no folder" not in install_oneapi(["x"], System(("rhel",), version))[0]

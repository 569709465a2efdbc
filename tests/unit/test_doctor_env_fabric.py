"""Which libfabric MPI and oneCCL load, made of small ELF files, and what Lustre says of its quotas."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import GIB, EnvHost, offline
from support.doctor_shows import shows
from support.small_elf import library

from xpubuild.doctor.checks.build import build_disk
from xpubuild.doctor.checks.shadow_system import shadow_libfabric
from xpubuild.doctor.kit import Outcome
from xpubuild.doctor.look.filesystem import Room, quota_room

FABRIC = "libfabric.so.1"
OLD = ("FABRIC_1.0", "FABRIC_1.1", "FABRIC_1.2")
NEW = (*OLD, "FABRIC_1.3", "FABRIC_1.7")


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


@pytest.fixture
def mpi(host: EnvHost) -> Path:
    """Intel MPI as its script sets it up; returns the folder of its libfabric."""
    root = host.folder / "oneapi" / "mpi" / "2021.16"
    folder = root / "opt" / "mpi" / "libfabric" / "lib"
    library(folder / FABRIC, defines=NEW, mark="of Intel MPI")
    library(folder / "prov" / "libtcp-fi.so", wants={FABRIC: ["FABRIC_1.7"]})
    host.environ.update(
        I_MPI_ROOT=str(root),
        LD_LIBRARY_PATH=str(folder),
        FI_PROVIDER_PATH=f"{folder}/prov:/usr/lib64/libfabric",
    )
    return folder


def look(host: EnvHost) -> Outcome:
    return shadow_libfabric(host.context())


def in_front(host: EnvHost, versions: tuple[str, ...], mark: str = "of a module") -> Path:
    folder = host.folder / "opt" / "cray" / "libfabric" / "lib64"
    host.environ["LD_LIBRARY_PATH"] = f"{folder}:{host.environ.get('LD_LIBRARY_PATH', '')}"
    return library(folder / FABRIC, defines=versions, mark=mark)


def test_an_old_one_in_front_cannot_load_the_providers(host: EnvHost, mpi: Path) -> None:
    first = in_front(host, OLD)
    found = look(host)
    assert (found.status, found.evidence["short"]) == ("fail", {str(first): ["FABRIC_1.7"]})
    assert f"export FI_PROVIDER_PATH={mpi}/prov" in found.fix.commands


@shows("ok", "shadow.libfabric")
def test_two_of_them_are_a_warning(host: EnvHost, mpi: Path) -> None:
    first = in_front(host, NEW)
    found = look(host)
    assert found.status == "warn"
    assert f"MPI loads {first}, oneCCL {mpi / FABRIC}" in found.detail
    # oneCCL told to take the same one: what a cluster with a fabric of its own does.
    host.environ["CCL_OFI_LIBRARY_PATH"] = str(first)
    assert look(host).status == "ok"


@pytest.mark.parametrize(("value", "told"), [("", "is not set"), ("/nowhere", "contains no provider")])
def test_providers_that_nothing_names(host: EnvHost, mpi: Path, value: str, told: str) -> None:
    host.environ["FI_PROVIDER_PATH"] = value
    found = look(host)
    assert (found.status, told in found.detail) == ("warn", True)
    assert f"export FI_PROVIDER_PATH={mpi}/prov" in found.fix.commands


# Lustre: the output of "lfs quota" as the Lustre manual and sites' documents show it.

TITLES = "     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace"
PLENTY = f"{TITLES}\n       /lustre    1048576       0       0       -    1024       0       0       -"


def on_lustre(host: EnvHost, user: str, group: str = PLENTY) -> None:
    script = (
        "#!/bin/sh\n"
        '[ "$1" = quota ] && [ "$4" = / ] || exit 2\n'
        'case "$2" in -u) [ "$3" = "$(id -u)" ] &&'
        f" cat <<EOF\nDisk quotas for usr me (uid $3):\n{user}\nEOF\n;;\n"
        f"-g) cat <<EOF\nDisk quotas for grp ours (gid $3):\n{group}\nEOF\n;; esac\n"
    )
    standin.write(host.folder / "bin" / "lfs", script, mode=0o755)
    host.environ["PATH"] = f"{host.folder / 'bin'}:{host.environ['PATH']}"
    host.facts["disk"] = replace(host.facts["disk"], filesystem="lustre")


def disk(host: EnvHost) -> Outcome:
    return build_disk(host.context(offline("2.8")))


def test_lustre_with_a_path_on_a_line_of_its_own(host: EnvHost) -> None:
    used, limit = 95 << 20, 100 << 20
    on_lustre(
        host,
        f"{TITLES}\n/home/mila/n/somebody\n                {used}       0 {limit}       -  908722       0"
        " 1048576       -\nuid 1471600598 is using default block quota setting",
    )
    found = disk(host)
    assert (found.status, found.evidence["quota_free_bytes"]) == ("fail", 5 * GIB)
    assert found.evidence["quota_inodes_free"] == 1048576 - 908722
    assert "quota leaves 5 GiB" in found.detail
    assert quota_room(host.folder / "gone", "/", "lustre", host.environ) == Room()

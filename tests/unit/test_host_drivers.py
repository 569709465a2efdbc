"""Driver streams from package databases, repositories, file names and kernel modules of made-up trees."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest
from support.files import lay
from unit.test_host_machines import dpkg, repository, stanza

from xpubuild.machine import host_report as report
from xpubuild.machine.drivers import driver_family, family_of_version, find_drivers, parse_rpms
from xpubuild.machine.gpus import GpuFacts, find_gpus, intel_gpu, intel_gpus


def apt(stream: str) -> dict[str, str]:
    return {"etc/apt/sources.list.d/intel-gpu.list": f"# jammy/lts/2350\n{repository(stream)}"}


@pytest.mark.parametrize(
    ("packages", "files", "family"),
    [
        # The first LTS, under its old names.
        (
            {"intel-level-zero-gpu": "1.3.27642.40-803~22.04", "level-zero": "1.14.0-744~22.04"},
            {},
            "lts-2350",
        ),
        # Its driver under the new name, as Ubuntu's archive has it.
        ({"libze-intel-gpu1": "23.43.27642.40-1ubuntu3"}, {}, "lts-2350"),
        # The second LTS: its patches go on long after newer branches.
        ({"libze-intel-gpu1": "25.18.33578.38-1146~24.04", "libze1": "1.21.9.0-1136~24.04"}, {}, "lts2-2523"),
        ({"libze-intel-gpu1": "25.18.33578.93-1~24.04"}, apt("/lts/2523"), "lts2-2523"),
        # The rolling stream passed through the same branch.
        ({"libze-intel-gpu1": "25.18.33578.15-1146~22.04"}, apt(""), "rolling"),
        ({"libze-intel-gpu1": "26.27.39122.11-0", "intel-ocloc": "26.27.39122.11-0"}, {}, "rolling"),
        # An old name does not make an LTS.
        ({"intel-level-zero-gpu": "1.3.30049.10-950~24.04"}, {}, "rolling"),
        # A repository of the LTS does not make a newer driver one.
        ({"libze-intel-gpu1": "25.35.35096.9-0"}, apt("/lts/2350"), "rolling"),
        # Older than the first LTS, or no version of the runtime at all.
        ({"intel-level-zero-gpu": "1.2.021182.9361-main"}, {}, None),
        ({"libze-intel-gpu1": "git"}, {}, None),
        # The loader alone is no driver.
        ({"libze1": "1.21.9.0-1136~24.04", "level-zero": "1.14.0-744~22.04"}, {}, None),
        ({}, {}, None),
        # Two drivers that contradict each other: not to be told.
        ({"libze-intel-gpu1": "25.35.35096.9-0", "intel-level-zero-gpu": "1.3.27642.40-803~22.04"}, {}, None),
    ],
)
def test_the_family(
    tmp_path: Path, packages: dict[str, str], files: dict[str, str], family: str | None
) -> None:
    status = dpkg(*(stanza(*item) for item in packages.items()))
    root = lay(tmp_path, {"var/lib/dpkg/status": status, **files})
    drivers = find_drivers(root)
    assert driver_family(drivers) == family
    assert {item.package: item.version for item in drivers} == packages
    assert all(item.source == "dpkg" for item in drivers)


def test_the_answer_of_rpm() -> None:
    text = (
        "intel-level-zero-gpu 1.3.27642.52-803.el9_3\npackage libze-intel-gpu1 is not installed\n"
        "intel-opencl 23.43.27642.52-803.el9_3\n"
    )
    found = list(parse_rpms(text, ("intel-level-zero-gpu", "libze-intel-gpu1", "intel-opencl")))
    assert found == [
        ("intel-level-zero-gpu", "1.3.27642.52-803.el9_3", "rpm"),
        ("intel-opencl", "23.43.27642.52-803.el9_3", "rpm"),
    ]
    assert family_of_version(found[0][1]) == "lts-2350"


@pytest.mark.parametrize("text", ["", "Package", "Package: libze-intel-gpu1\n", "\x00\xff: x\n\n:\n"])
def test_a_damaged_database_does_no_harm(tmp_path: Path, text: str) -> None:
    assert find_drivers(lay(tmp_path, {"var/lib/dpkg/status": text})) == ()
    (tmp_path / "var/lib/dpkg/status").unlink()
    (tmp_path / "var/lib/dpkg/status").mkdir()
    assert find_drivers(tmp_path) == ()


# ---- GPUs from a fake sysfs tree (a stand-in for the kernel's: no test machine has an Intel GPU)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "stand-in sysfs é"


def add_device(
    root: Path, *, device: str = "0x0bd5", driver: str | None = None, node: str | None = None,
    numa: str = "0", folders: tuple[str, ...] = (),
) -> None:  # fmt: skip
    folder = root / "sys/bus/pci/devices/0000:29:00.0"
    lay(folder, {"vendor": "0x8086\n", "device": device, "class": "0x038000", "numa_node": numa})
    if driver:
        (root / "sys/bus/pci/drivers" / driver).mkdir(parents=True)
        (folder / "driver").symlink_to(root / "sys/bus/pci/drivers" / driver)
    if node:
        (root / "dev/dri").mkdir(parents=True)
    for name in (*folders, *([f"drm/{node}"] if node else [])):
        (folder / name).mkdir(parents=True)


def test_a_max_1550_under_i915_with_two_tiles(root: Path) -> None:
    tiles = ("drm/card0/gt/gt0", "drm/card0/gt/gt1")
    add_device(root, driver="i915", node="renderD128", numa="1", folders=tiles)
    (root / "dev/dri/renderD128").write_bytes(b"")
    assert find_gpus(root) == (
        GpuFacts(
            pci_address="0000:29:00.0",
            vendor_id="0x8086",
            device_id="0x0bd5",
            name="Intel Data Center GPU Max 1550",
            family="PVC (Xe-HPC)",
            kernel_driver="i915",
            render_node="/dev/dri/renderD128",
            accessible=True,
            numa_node=1,
            tiles=2,
        ),
    )


def test_a_node_that_cannot_be_opened_is_not_accessible(root: Path) -> None:
    add_device(root, driver="xe", node="renderD129")
    assert find_gpus(root)[0].accessible is False
    # A folder refuses to be opened for writing, also for root, who passes any permission bits.
    (root / "dev/dri/renderD129").mkdir()
    assert find_gpus(root)[0].accessible is False


@pytest.mark.parametrize(
    ("device", "driver", "folders", "tiles"),
    [
        ("0x0bd7", "xe", ("tile0", "tile1"), 2),  # the table does not know the Max 1350
        ("0x0bd7", None, (), None),
        ("0x0bda", "i915", ("drm/card1/gt/gt0",), 1),
        ("0x7d55", "i915", ("drm/card1/gt/gt0", "drm/card1/gt/gt1"), None),  # gt1 is the media engine
    ],
)
def test_tiles_come_from_sysfs_before_the_table(
    root: Path, device: str, driver: str | None, folders: tuple[str, ...], tiles: int | None
) -> None:
    add_device(root, device=device, driver=driver, folders=folders)
    assert find_gpus(root)[0].tiles == tiles


def test_the_table_is_whole() -> None:
    table = intel_gpus()
    assert len(table) == 83
    assert all(name.family and name.targets and name.name for name in table.values())
    assert all(key == f"0x{int(key, 16):04x}" for key in table)


@pytest.mark.parametrize("device_id", ["0x0b69", "0x0b6e", "0x0bd4", "0x0BD5", "0x0bdb"])
def test_max_parts_are_known_also_outside_the_common_range(device_id: str) -> None:
    known = intel_gpu(device_id)
    assert known.name.startswith("Intel Data Center GPU Max")
    assert known.targets == ("pvc",)


# ---- What readers of the host do at their limits, and what is made of programs that say little


def test_a_question_that_fails_fails_where_its_answer_is_wanted() -> None:
    def ask() -> int:
        raise RuntimeError("no")

    asked = report._begun(ask)
    with pytest.raises(RuntimeError, match="no"):
        report._said(asked, 1e12, 0)
    assert report._said(report._begun(lambda: 3), 1e12, 0) == 3
    assert report._said(Future(), 0.0, 7) == 7

"""GPUs from a fake sysfs tree (a stand-in for the kernel's: no test machine has an Intel GPU)."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.machine.gpus import GpuFacts, find_gpus, intel_gpu, intel_gpus


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "stand-in sysfs é"


def add_device(
    root: Path,
    address: str,
    *,
    vendor: str = "0x8086",
    device: str = "0x0bd5",
    pci_class: str = "0x038000",
    driver: str | None = None,
    node: str | None = None,
    numa: str = "0",
    folders: tuple[str, ...] = (),
) -> Path:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    for name, text in (("vendor", vendor), ("device", device), ("class", pci_class), ("numa_node", numa)):
        (folder / name).write_text(f"{text}\n")
    if driver:
        drivers = root / "sys/bus/pci/drivers" / driver
        drivers.mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(drivers)
    if node:
        (folder / "drm" / node).mkdir(parents=True)
        (root / "dev/dri").mkdir(parents=True, exist_ok=True)
    for name in folders:
        (folder / name).mkdir(parents=True)
    return folder


def test_a_max_1550_under_i915_with_two_tiles(root: Path) -> None:
    add_device(
        root,
        "0000:29:00.0",
        driver="i915",
        node="renderD128",
        numa="1",
        folders=("drm/card0/gt/gt0", "drm/card0/gt/gt1"),
    )
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
    add_device(root, "0000:29:00.0", driver="xe", node="renderD129")
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
    add_device(root, "0000:29:00.0", device=device, driver=driver, folders=folders)
    assert find_gpus(root)[0].tiles == tiles


def test_the_table_is_whole() -> None:
    table = intel_gpus()
    assert len(table) == 83
    assert all(name.family and name.targets and name.name for name in table.values())
    assert all(key == f"0x{int(key, 16):04x}" for key in table)


@pytest.mark.parametrize("device_id", ["0x0b69", "0x0b6e", "0x0bd4", "0x0BD5", "0x0bdb"])
def test_max_parts_are_known_also_outside_the_common_range(device_id: str) -> None:
    known = intel_gpu(device_id)
    assert known is not None
    assert known.name.startswith("Intel Data Center GPU Max")
    assert known.targets == ("pvc",)

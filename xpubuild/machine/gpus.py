"""Display controllers as sysfs shows them: no driver library is loaded, nothing is run.

The names of Intel's devices are in ``pci_ids.yaml``, which has its sources.
"""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from xpubuild.frozen import frozen
from xpubuild.machine.readers import LIVE_ROOT, UNKNOWN, entries, inside, link_name, read_int, read_text

INTEL = "0x8086"
_TABLE = Path(__file__).with_name("pci_ids.yaml")
_DISPLAY_CLASS = 0x03  # PCI base class; Max GPUs are 0x0380 (no video output)
_RENDER = re.compile(r"renderD\d+")
_TILE = re.compile(r"(tile|gt)\d+")
_MULTI_TILE_FAMILY = "PVC"


@frozen
class PciName:
    """``targets`` are the ahead-of-time compilation targets; ``tiles`` is None where no source states it."""

    name: str
    family: str
    targets: tuple[str, ...]
    tiles: int | None


@functools.cache
def intel_gpus() -> Mapping[str, PciName]:
    """Return device id ('0x0bd5') -> what it is."""
    # Half of what a machine without such a GPU would wait for.
    from xpubuild.safe_yaml import read_yaml  # noqa: PLC0415

    document = read_yaml(_TABLE.read_text("utf-8"))
    return {
        device_id: PciName(
            name=device["name"] or f"Intel GPU {device_id}, {family['family']}",
            family=family["family"],
            targets=tuple(family["targets"]),
            tiles=device.get("tiles"),
        )
        for family in document["families"]
        for device_id, device in family["devices"].items()
    }


def intel_gpu(device_id: str) -> PciName | None:
    """Return what an Intel device id ('0x0bd5', any case) is, or None for one that the table lacks."""
    return intel_gpus().get(device_id.lower())


@frozen
class GpuFacts:
    """A display controller, of whatever vendor; the fields are the contract of doctor's ``host.gpus``."""

    pci_address: str
    vendor_id: str
    device_id: str
    name: str
    family: str
    kernel_driver: str | None
    render_node: str | None
    accessible: bool | None
    """Whether this user could open the render node; null for a device in an image, which is not tried."""
    numa_node: int | None
    """Null where the machine does not say."""
    tiles: int | None


def find_gpus(root: Path = LIVE_ROOT) -> tuple[GpuFacts, ...]:
    """Return the display controllers of every vendor, by PCI address."""
    found = (_gpu(device, root) for device in entries(root / "sys/bus/pci/devices", root))
    return tuple(gpu for gpu in found if gpu is not None)


def _gpu(device: Path, root: Path) -> GpuFacts | None:
    pci_class = read_int(device / "class", 16, root)
    vendor = read_text(device / "vendor", root)
    number = read_text(device / "device", root)
    if pci_class is None or pci_class >> 16 != _DISPLAY_CLASS or vendor is None or number is None:
        return None
    known = intel_gpu(number) if vendor.lower() == INTEL else None
    driver = link_name(device / "driver", root)
    nodes = (item.name for item in entries(device / "drm", root))
    node = next((name for name in nodes if _RENDER.fullmatch(name)), None)
    numa = read_int(device / "numa_node", root=root)
    return GpuFacts(
        pci_address=device.name,
        vendor_id=vendor.lower(),
        device_id=number.lower(),
        name=known.name if known else UNKNOWN,
        family=known.family if known else UNKNOWN,
        kernel_driver=driver,
        render_node=f"/dev/dri/{node}" if node else None,
        accessible=_can_open(root / "dev/dri" / node, root) if node else None,
        numa_node=numa if numa is not None and numa >= 0 else None,
        tiles=_tiles(device, driver, known, root),
    )


def _can_open(node: Path, root: Path) -> bool | None:
    """Open it as a compute runtime does; permission bits alone do not show that (ACLs, cgroup device rules).

    In a tree nothing is opened: a device there may be any of this machine's. A recorded tree has a plain file
    in its place, and its permissions tell.
    """
    if root != LIVE_ROOT:
        return _recorded(inside(node, root))
    try:
        os.close(os.open(node, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _recorded(node: Path) -> bool | None:
    try:
        mode = node.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISREG(mode):
        return os.access(node, os.R_OK | os.W_OK)
    return False if stat.S_ISDIR(mode) else None


def _tiles(device: Path, driver: str | None, known: PciName | None, root: Path) -> int | None:
    """Count tiles: xe has a folder for each; i915 one per GT, which is a tile on Max only (else: media)."""
    if driver == "xe":
        return _count(entries(device, root)) or (known.tiles if known else None)
    if driver == "i915" and known is not None and known.family.startswith(_MULTI_TILE_FAMILY):
        for card in entries(device / "drm", root):
            if found := _count(entries(card / "gt", root)):
                return found
    return known.tiles if known else None


def _count(folders: list[Path]) -> int | None:
    return sum(1 for folder in folders if _TILE.fullmatch(folder.name)) or None

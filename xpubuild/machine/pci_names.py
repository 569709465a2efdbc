"""Names of Intel PCI device ids; the table is ``pci_ids.yaml``, which has its sources."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from xpubuild.frozen import frozen

INTEL = "0x8086"
_TABLE = Path(__file__).with_name("pci_ids.yaml")


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

"""What an Intel PCI device id means; the table is ``pci_ids.yaml``, which names its sources."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INTEL = "0x8086"
_TABLE = Path(__file__).with_name("pci_ids.yaml")


@dataclass(frozen=True)
class PciName:
    """``targets`` are the ahead-of-time compilation targets; ``tiles`` is None where no source states it."""

    name: str
    family: str
    targets: tuple[str, ...]
    tiles: int | None


@functools.cache
def intel_gpus() -> Mapping[str, PciName]:
    """Return device id ('0x0bd5') -> what it is."""
    import yaml  # noqa: PLC0415 - half of what a machine without such a GPU would wait for

    # libyaml's loader is ten times as fast, but not every build of PyYAML has it.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load(_TABLE.read_text("utf-8"), loader)  # noqa: S506 - both are safe loaders
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

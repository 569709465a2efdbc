"""Tiles and memory as the driver gives them, against what the card has."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from xpubuild.doctor.context import Context
from xpubuild.doctor.fixes import as_root
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.doctor.probes.children import CHECK_DEADLINE_S
from xpubuild.doctor.probes.level_zero import unmasked
from xpubuild.doctor.probes.machine import RUN, intel_gpus, named
from xpubuild.host.gpus import GpuFacts
from xpubuild.host.pci_names import intel_gpu
from xpubuild.host.readers import exists

_GIB = 1 << 30


class MemoryAndTiles(Check):
    """The driver gives every tile that the card has."""

    id = "gpu.memory_tiles"
    title = "The driver shows all tiles and memory of each GPU"
    severity = "warn"
    needs = ("level_zero.enumerate",)
    profiles = RUN
    live = True
    deadline_s = CHECK_DEADLINE_S
    explanation = (
        "Adds up tiles and memory that Level Zero reports for each PCI address and compares the tiles with"
        " what the product has (Max 1550 and 1450: two, Max 1100: one). Fewer are what a virtual function,"
        " a partition or a GPU that was passed through in part shows; PyTorch runs on it with that share of"
        " the memory."
    )

    def run(self, context: Context) -> Outcome:
        """Compare tiles by PCI address."""
        shown: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for device in context.probe(unmasked).gpus:
            shown[str(device["pci_address"])].append(device)
        known = {gpu.pci_address: gpu for gpu in intel_gpus(context)}
        told, fewer = [], []
        evidence = {}
        for address, devices in shown.items():
            tiles = sum(max(1, len(device.get("tiles", ()))) for device in devices)
            memory = sum(device["memory_bytes"] or 0 for device in devices)
            evidence[address] = {"tiles": tiles, "memory_bytes": memory}
            text = f"{address}: {tiles} tile{'s' if tiles != 1 else ''}, {memory / _GIB:.0f} GiB"
            told.append(text)
            gpu = known.get(address)
            wanted = _tiles(gpu)
            if gpu is not None and wanted and tiles < wanted:
                share = (
                    "a virtual function"
                    if _virtual(context, gpu)
                    else "a part of the card, or a tile that is off"
                )
                fewer.append(
                    f"{named(gpu)} shows {tiles} of {wanted} tiles, {memory / _GIB:.0f} GiB: {share}"
                )
        if fewer:
            first = next(iter(known))
            return self.found(
                "; ".join(fewer),
                Fix(
                    "where the whole card was meant, look at how it is given to this machine and at the"
                    " kernel's log",
                    as_root(
                        context, f"lspci -vv -s {first} | grep -i 'SR-IOV\\|Physical'", "dmesg | grep -i tile"
                    ),
                ),
                gpus=evidence,
            )
        return self.ok("; ".join(told), gpus=evidence)


def _tiles(gpu: GpuFacts | None) -> int | None:
    """Return the tiles of the product; sysfs counts those that this machine was given."""
    if gpu is None:
        return None
    known = intel_gpu(gpu.device_id)
    return max(filter(None, (known.tiles if known else None, gpu.tiles)), default=None)


def _virtual(context: Context, gpu: GpuFacts) -> bool:
    return exists(context.path(f"/sys/bus/pci/devices/{gpu.pci_address}/physfn"))

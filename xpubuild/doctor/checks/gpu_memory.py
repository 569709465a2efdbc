"""Tiles and memory as the driver reports them, compared with those of the product."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from xpubuild.doctor.fixes import as_root
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok
from xpubuild.doctor.probes.level_zero import unmasked
from xpubuild.doctor.probes.machine import intel_gpus, named
from xpubuild.machine.gpus import GpuFacts
from xpubuild.machine.pci_names import intel_gpu
from xpubuild.machine.readers import exists

_GIB = 1 << 30


@check(
    "gpu.memory_tiles",
    severity="warn",
    profiles=RUN,
    needs=("level_zero.enumerate",),
    live=True,
    deadline_s=20,
)
def gpu_memory_tiles(look: Look) -> Outcome:
    """The driver reports all tiles and memory of each GPU.

    Adds up the tiles and memory that Level Zero reports for each PCI address, and compares the tiles
    with those of the product (Max 1550 and 1450: two, Max 1100: one). A virtual function, a partition
    or a partially passed-through GPU has fewer; PyTorch runs on it with that share of the memory.
    """
    shown: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for device in unmasked(look).gpus:
        shown[str(device["pci_address"])].append(device)
    known = {gpu.pci_address: gpu for gpu in intel_gpus(look)}
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
            share = "a virtual function" if _virtual(look, gpu) else "a part of the card, or a disabled tile"
            fewer.append(f"{named(gpu)} has {tiles} of {wanted} tiles, {memory / _GIB:.0f} GiB: {share}")
    if fewer:
        first = next(iter(known))
        return finding(
            "; ".join(fewer),
            Fix(
                "if you expected the complete card, check how it is passed to this machine, and the"
                " kernel log",
                as_root(look, f"lspci -vv -s {first} | grep -i 'SR-IOV\\|Physical'", "dmesg | grep -i tile"),
            ),
            gpus=evidence,
        )
    return ok("; ".join(told), gpus=evidence)


def _tiles(gpu: GpuFacts | None) -> int | None:
    """Return the tiles of the product; sysfs has only those passed to this machine."""
    if gpu is None:
        return None
    known = intel_gpu(gpu.device_id)
    return max(filter(None, (known.tiles if known else None, gpu.tiles)), default=None)


def _virtual(look: Look, gpu: GpuFacts) -> bool:
    return exists(look.path(f"/sys/bus/pci/devices/{gpu.pci_address}/physfn"))

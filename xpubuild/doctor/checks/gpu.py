"""The Intel GPUs: whether PyTorch's XPU backend supports them, their memory, tiles and NUMA nodes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from xpubuild.doctor.fixes import as_root
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, commas, finding, ok, plural, skip, todo, warn
from xpubuild.doctor.probes.level_zero import unmasked
from xpubuild.doctor.probes.machine import (
    FLEX,
    contained,
    drm_nodes,
    has_pci,
    integrated,
    intel_gpus,
    listed,
    named,
    supported,
    wsl,
)
from xpubuild.doctor.probes.selector import SELECTOR
from xpubuild.machine.gpus import intel_gpu
from xpubuild.machine.readers import UNKNOWN, entries, exists

_GIB = 1 << 30
_NO_WSL_GPU = todo(
    "install Intel's Windows driver and update WSL; pass /dev/dxg instead of /dev/dri to containers",
    "wsl.exe --update",
    "docker run --device /dev/dxg -v /usr/lib/wsl:/usr/lib/wsl ...",
)


@check("gpu.present", profiles=RUN)
def gpu_present(look: Look) -> Outcome:
    """An Intel GPU is present.

    Checks every PCI function of class display controller (0x03) with Intel's vendor id, and the render
    nodes in `/dev/dri`. This needs no driver and no library.

    A recipe for the CPU needs no GPU, and neither does a build: on a machine that only builds, use
    `--profile build`. A virtual machine has a GPU only if it is passed through. Under WSL2 the GPU is
    `/dev/dxg` and not on the PCI bus.
    """
    if look.wanted is not None and look.wanted.target != "xpu":
        return skip(f"the recipe {look.wanted.name} is for the CPU")
    if gpus := intel_gpus(look):
        return ok(listed(gpus), pci=[gpu.pci_address for gpu in gpus])
    if wsl(look):
        if exists(look.path("/dev/dxg")):
            return ok("WSL2: the GPU is /dev/dxg; its model cannot be read under WSL2")
        return finding("WSL2 without /dev/dxg: Windows provides no GPU to this machine", _NO_WSL_GPU)
    if not has_pci(look):
        missing = finding("/sys has no PCI bus", _elsewhere(look))
        return missing if look.live else skip("the image has no /sys, so no devices")
    functions, nodes = len(entries(look.path("/sys/bus/pci/devices"))), drm_nodes(look)
    others = (
        f", {plural(len(look.host.gpus), 'display controller')} of other vendors" if look.host.gpus else ""
    )
    detail = f"no Intel GPU: checked {plural(functions, 'PCI function')}{others} and /dev/dri"
    detail += f" ({commas(nodes) or 'no render node'})"
    return finding(detail, _elsewhere(look), functions=functions, nodes=list(nodes))


def _elsewhere(look: Look) -> Fix:
    if contained(look):
        return todo(
            "run this on a machine with an Intel GPU; a container sees the PCI bus of its host",
            "lspci -nn -d 8086::0380",
            "lspci -nn -d 8086::0300",
        )
    return todo(
        "run this on a machine with an Intel GPU; to only build here, check for a build",
        "xpubuild doctor --profile build",
    )


@check("gpu.supported", profiles=RUN, needs="gpu.present")
def gpu_supported(look: Look) -> Outcome:
    """PyTorch's XPU backend supports this GPU.

    Compares the PCI device ids with a table from Intel's compute runtime: Data Center GPU Max (1100,
    1350, 1450, 1550 and parts outside the usual id range), Arc A and B, Core Ultra. If the id of a
    discrete card is not in the table, the card is probably newer than the table, which is a warning. If
    the id of an integrated GPU is not in the table, it is an older generation that PyTorch has no
    kernels for. Flex was never on PyTorch's list of supported GPUs, although kernels were compiled for
    it for a while.

    If there are GPUs of several families, PyTorch uses all of them, with one set of ahead-of-time
    kernels; on the other families every kernel is compiled at first use.
    """
    gpus = intel_gpus(look)
    if not gpus:
        return ok("the GPU model cannot be read under WSL2") if wsl(look) else skip("no GPU")
    good = [gpu for gpu in gpus if supported(gpu)]
    new = [gpu for gpu in gpus if gpu.family == UNKNOWN and not integrated(gpu)]
    flex = [gpu for gpu in gpus if gpu.family == FLEX]
    families = sorted({gpu.family for gpu in good})
    devices = {gpu.pci_address: gpu.device_id for gpu in gpus}
    if not (good or new or flex):
        detail = f"{listed(gpus)}: an integrated GPU that PyTorch's XPU backend does not support"
        fix = todo("use a machine with a Data Center GPU Max, Arc or Core Ultra GPU")
        return finding(detail, fix, devices=devices)
    if not good:
        why = "PyTorch never listed Flex as supported" if flex else "its device id is unknown"
        detail = f"{listed((*flex, *new))}: {why}; `xpubuild verify` tests whether it works"
        fix = todo("test it on the device, or update xpubuild for newer device ids", "xpubuild verify")
        return warn(detail, fix, devices=devices)
    if len(families) > 1:
        detail = f"GPUs of several families: {listed(good)}; PyTorch lists them all, but a build for one of"
        detail += " them has no precompiled kernels for the others"
        summary = "build for all of them (--arch), or limit PyTorch to one family"
        return warn(
            detail,
            todo(summary, "sycl-ls", f"export {SELECTOR}=level_zero:NUMBERS   # of one family"),
            devices=devices,
            families=families,
        )
    beside = f"; also {listed(new)}, with an unknown device id" if new else ""
    return ok(f"{listed(good)}{beside}", devices=devices, family=families[0])


@check("gpu.numa", severity="warn", profiles=RUN, needs="gpu.supported")
def gpu_numa(look: Look) -> Outcome:
    """The NUMA node of each GPU is known.

    Reads `numa_node` of each GPU on a machine with several NUMA nodes. A process on another socket
    accesses the GPU over the link between the sockets, with less bandwidth. If the firmware does not
    report the node, ranks cannot be placed near the GPU.
    """
    nodes = [path for path in entries(look.path("/sys/devices/system/node")) if path.name[4:].isdigit()]
    gpus = [gpu for gpu in intel_gpus(look) if not integrated(gpu)]
    found = {gpu.pci_address: gpu.numa_node for gpu in gpus}
    if len(nodes) <= 1 or not gpus:
        return ok("the machine has one NUMA node", nodes=found)
    if lost := [gpu for gpu in gpus if gpu.numa_node is None]:
        detail = f"the firmware does not report which of {len(nodes)} NUMA nodes these GPUs belong to:"
        summary = "enable NUMA in the firmware (no node interleaving), or find the slot in the manual"
        fix = todo(summary, *as_root(look, "dmidecode -t slot"))
        return finding(f"{detail} {listed(lost)}", fix, nodes=found)
    return ok(commas(f"{named(gpu)} is on node {gpu.numa_node}" for gpu in gpus), nodes=found)


@check(
    "gpu.memory_tiles", severity="warn", profiles=RUN, needs="level_zero.enumerate", live=True, deadline_s=20
)
def gpu_memory_tiles(look: Look) -> Outcome:
    """The driver reports all tiles and memory of each GPU.

    Adds up the tiles and memory that Level Zero reports for each PCI address, and compares the tiles
    with those of the product (Max 1550 and 1450: two, Max 1100: one). A virtual function, a partition
    or a partially passed-through GPU has fewer; PyTorch runs on it with that share of the memory.
    """
    cards: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for device in unmasked(look).gpus:
        cards[str(device["pci_address"])].append(device)
    known = {gpu.pci_address: gpu for gpu in intel_gpus(look)}
    told, fewer, evidence = [], [], {}
    for address, devices in cards.items():
        tiles = sum(max(1, len(device.get("tiles", ()))) for device in devices)
        memory = sum(device["memory_bytes"] or 0 for device in devices)
        evidence[address] = {"tiles": tiles, "memory_bytes": memory}
        told.append(f"{address}: {plural(tiles, 'tile')}, {memory / _GIB:.0f} GiB")
        gpu = known.get(address)
        product = intel_gpu(gpu.device_id) if gpu else None
        # sysfs has only the tiles that were passed to this machine.
        wanted = max((product and product.tiles) or 0, gpu.tiles or 0) if gpu else 0
        if gpu is not None and tiles < wanted:
            virtual = exists(look.path(f"/sys/bus/pci/devices/{address}/physfn"))
            share = "a virtual function" if virtual else "a part of the card, or a disabled tile"
            fewer.append(f"{named(gpu)} has {tiles} of {wanted} tiles, {memory / _GIB:.0f} GiB: {share}")
    if not fewer:
        return ok("; ".join(told), gpus=evidence)
    lines = as_root(
        look, f"lspci -vv -s {next(iter(known))} | grep -i 'SR-IOV\\|Physical'", "dmesg | grep -i tile"
    )
    summary = "if you expected the complete card, check how it is passed to this machine, and the kernel log"
    return finding("; ".join(fewer), todo(summary, *lines), gpus=evidence)


#: Where buffers of the Xe-HPG generation end: 32 bits of offset in a binding table.
_WINDOW = 4 * _GIB
#: Unified Runtime's switch, off by default (oneapi-src/unified-runtime PR 1245).
RELAXED = "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS"


@check(
    "gpu.single_allocation",
    severity="warn",
    profiles=RUN,
    needs="level_zero.enumerate",
    live=True,
    deadline_s=20,
)
def gpu_single_allocation(look: Look) -> Outcome:
    """The GPU supports allocations larger than 4 GiB.

    Compares the memory of each GPU with the largest single allocation that Level Zero reports for it
    (`maxMemAllocSize`). Arc A-series and other GPUs of that generation allow at most 4 GiB per
    allocation, however much memory is free, and torch reports `XPU out of memory. Tried to allocate
    4.00 GiB` on an empty card. Data Center GPU Max and Arc B-series have no such limit.

    With `UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1` the SYCL runtime requests larger allocations from
    the driver, and compiles kernels so that they can address them, which makes some kernels slower.
    torch's ahead-of-time compiled kernels must have been built for it: torch-xpu-ops does so since its
    pull request 1406. Otherwise split the tensors.
    """
    limited = [device for device in unmasked(look).gpus if _limited(device)]
    gpus = {
        str(device.get("pci_address")): {
            "memory_bytes": device["memory_bytes"], "largest_bytes": device["max_allocation_bytes"]
        }
        for device in limited
    }  # fmt: skip
    if not limited:
        return ok("every GPU supports allocations larger than 4 GiB, or has less memory")
    told = "; ".join(
        f"{device['name']}: {device['max_allocation_bytes'] / _GIB:.1f} of"
        f" {device['memory_bytes'] / _GIB:.0f} GiB in one allocation"
        for device in limited
    )
    if look.environ.get(RELAXED, "0") not in ("", "0"):
        return ok(f"{told}, but {RELAXED} removes the limit", gpus=gpus)
    summary = "use smaller tensors, or let the runtime exceed the limit at some cost in speed"
    return finding(told, todo(summary, f"export {RELAXED}=1"), gpus=gpus)


def _limited(device: dict[str, Any]) -> bool:
    """Whether a device has clearly more memory than its largest allocation, which is at most 4 GiB."""
    most, memory = device.get("max_allocation_bytes") or 0, device.get("memory_bytes") or 0
    # A driver keeps a part of the memory for itself, so "most" is always a little less.
    return 0 < most <= _WINDOW and memory > most * 5 // 4

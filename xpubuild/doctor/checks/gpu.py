"""The Intel GPUs: whether PyTorch's XPU backend supports them, memory, tiles, NUMA nodes, PCI Express."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xpubuild.doctor.fixes import as_root
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, commas, finding, ok, plural, skip, todo, warn
from xpubuild.doctor.probes import machine
from xpubuild.doctor.probes.level_zero import SELECTOR, unmasked
from xpubuild.machine.gpus import GpuFacts, intel_gpu
from xpubuild.machine.readers import UNKNOWN, entries, exists, read_int, read_text

_SPEED = re.compile(r"(\d+(?:\.\d+)?)\s*GT/s")
_FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", re.IGNORECASE)
_BRIDGE = 0x0604
_MIB = 1 << 20
_SMALL_WINDOW = 256 * _MIB
_PREFETCHABLE = 0x2000  # IORESOURCE_PREFETCH (include/linux/ioport.h)
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
    if gpus := machine.intel_gpus(look):
        return ok(machine.listed(gpus), pci=[gpu.pci_address for gpu in gpus])
    if machine.wsl(look):
        if exists(look.path("/dev/dxg")):
            return ok("WSL2: the GPU is /dev/dxg; its model cannot be read under WSL2")
        return finding("WSL2 without /dev/dxg: Windows provides no GPU to this machine", _NO_WSL_GPU)
    if not machine.has_pci(look):
        missing = finding("/sys has no PCI bus", _elsewhere(look))
        return missing if look.live else skip("the image has no /sys, so no devices")
    functions, nodes = len(entries(look.path("/sys/bus/pci/devices"))), machine.drm_nodes(look)
    others = (
        f", {plural(len(look.host.gpus), 'display controller')} of other vendors" if look.host.gpus else ""
    )
    detail = f"no Intel GPU: checked {plural(functions, 'PCI function')}{others} and /dev/dri"
    detail += f" ({commas(nodes) or 'no render node'})"
    return finding(detail, _elsewhere(look), functions=functions, nodes=list(nodes))


def _elsewhere(look: Look) -> Fix:
    if machine.contained(look):
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
    gpus = machine.intel_gpus(look)
    if not gpus:
        return ok("the GPU model cannot be read under WSL2") if machine.wsl(look) else skip("no GPU")
    good = [gpu for gpu in gpus if machine.supported(gpu)]
    new = [gpu for gpu in gpus if gpu.family == UNKNOWN and not machine.integrated(gpu)]
    flex = [gpu for gpu in gpus if gpu.family == machine.FLEX]
    families = sorted({gpu.family for gpu in good})
    devices = {gpu.pci_address: gpu.device_id for gpu in gpus}
    if not (good or new or flex):
        detail = f"{machine.listed(gpus)}: an integrated GPU that PyTorch's XPU backend does not support"
        fix = todo("use a machine with a Data Center GPU Max, Arc or Core Ultra GPU")
        return finding(detail, fix, devices=devices)
    if not good:
        why = "PyTorch never listed Flex as supported" if flex else "its device id is unknown"
        detail = f"{machine.listed((*flex, *new))}: {why}; `xpubuild verify` tests whether it works"
        fix = todo("test it on the device, or update xpubuild for newer device ids", "xpubuild verify")
        return warn(detail, fix, devices=devices)
    if len(families) > 1:
        detail = f"GPUs of several families: {machine.listed(good)}; PyTorch lists them all, but a build for"
        detail += " one of them has no precompiled kernels for the others"
        summary = "build for all of them (--arch), or limit PyTorch to one family"
        return warn(
            detail,
            todo(summary, "sycl-ls", f"export {SELECTOR}=level_zero:NUMBERS   # of one family"),
            devices=devices,
            families=families,
        )
    beside = f"; also {machine.listed(new)}, with an unknown device id" if new else ""
    return ok(f"{machine.listed(good)}{beside}", devices=devices, family=families[0])


@check("gpu.numa", severity="warn", profiles=RUN, needs="gpu.supported")
def gpu_numa(look: Look) -> Outcome:
    """The NUMA node of each GPU is known.

    Reads `numa_node` of each GPU on a machine with several NUMA nodes. A process on another socket
    accesses the GPU over the link between the sockets, with less bandwidth. If the firmware does not
    report the node, ranks cannot be placed near the GPU.
    """
    nodes = [path for path in entries(look.path("/sys/devices/system/node")) if path.name[4:].isdigit()]
    gpus = [gpu for gpu in machine.intel_gpus(look) if not machine.integrated(gpu)]
    found = {gpu.pci_address: gpu.numa_node for gpu in gpus}
    if len(nodes) <= 1 or not gpus:
        return ok("the machine has one NUMA node", nodes=found)
    if lost := [gpu for gpu in gpus if gpu.numa_node is None]:
        detail = f"the firmware does not report which of {len(nodes)} NUMA nodes these GPUs belong to:"
        summary = "enable NUMA in the firmware (no node interleaving), or find the slot in the manual"
        fix = todo(summary, *as_root(look, "dmidecode -t slot"))
        return finding(f"{detail} {machine.listed(lost)}", fix, nodes=found)
    return ok(commas(f"{machine.named(gpu)} is on node {gpu.numa_node}" for gpu in gpus), nodes=found)


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
    known = {gpu.pci_address: gpu for gpu in machine.intel_gpus(look)}
    shown, fewer, evidence = [], [], {}
    for address, devices in cards.items():
        tiles = sum(max(1, len(device.get("tiles", ()))) for device in devices)
        memory = sum(device["memory_bytes"] or 0 for device in devices)
        evidence[address] = {"tiles": tiles, "memory_bytes": memory}
        shown.append(f"{address}: {plural(tiles, 'tile')}, {memory / _GIB:.0f} GiB")
        gpu = known.get(address)
        product = intel_gpu(gpu.device_id) if gpu else None
        # sysfs has only the tiles that were passed to this machine.
        wanted = max((product and product.tiles) or 0, gpu.tiles or 0) if gpu else 0
        if gpu is not None and tiles < wanted:
            virtual = exists(look.path(f"/sys/bus/pci/devices/{address}/physfn"))
            share = "a virtual function" if virtual else "a part of the card, or a disabled tile"
            fewer.append(
                f"{machine.named(gpu)} has {tiles} of {wanted} tiles, {memory / _GIB:.0f} GiB: {share}"
            )
    if not fewer:
        return ok("; ".join(shown), gpus=evidence)
    lines = as_root(
        look, f"lspci -vv -s {next(iter(known))} | grep -i 'SR-IOV\\|Physical'", "dmesg | grep -i tile"
    )
    summary = "if you expected the complete card, check how it is passed to this machine, and the kernel log"
    return finding("; ".join(fewer), todo(summary, *lines), gpus=evidence)


@check("gpu.pcie_link", severity="warn", profiles=RUN, needs="gpu.supported")
def gpu_pcie_link(look: Look) -> Outcome:
    """The PCI Express link runs at the card's full speed and width.

    Compares `current_link_speed` and `current_link_width` with `max_link_speed` and `max_link_width` of
    each GPU and, on cards with their own switch, of the switch's upstream port. A narrower link is
    caused by the slot, a riser or a badly seated card. A slower link may also be a GPU that saves power
    while idle: run something on it and check again.
    """
    gpus = [gpu for gpu in machine.intel_gpus(look) if not machine.integrated(gpu)]
    slow, known = [], {}
    for gpu in gpus:
        for place in _downstream_ends(look, gpu):
            now, best = _link(place, "current"), _link(place, "max")
            if now is None or best is None:
                continue
            known[place.name] = f"{now[0]:g} GT/s x{now[1]}"
            if now[0] < best[0] or now[1] < best[1]:
                at = "" if place.name == gpu.pci_address else f" (port {place.name} of its card)"
                slow.append(f"{machine.named(gpu)}{at}: {known[place.name]} of {best[0]:g} GT/s x{best[1]}")
    if slow:
        line = f"lspci -vv -s {gpus[0].pci_address} | grep -E 'LnkCap|LnkSta'"
        summary = (
            "check again while the GPU is busy; then check the slot, risers, the seating of the card and"
        )
        fix = todo(f"{summary} the firmware settings of the slot", *as_root(look, line))
        return finding("; ".join(slow), fix, links=known)
    if not known:
        return skip("no link state in sysfs: a virtual machine, or an integrated GPU")
    return ok(commas(f"{name}: {state}" for name, state in known.items()), links=known)


def _downstream_ends(look: Look, gpu: GpuFacts) -> Iterator[Path]:
    """Yield the function at the lower end of each link between the GPU and its root port.

    Ends alternate on the way up: GPU, port above it, upstream port of the switch, port above that, and so on.
    """
    place = look.path(f"/sys/bus/pci/devices/{gpu.pci_address}").resolve()
    chain = [place]
    for parent in place.parents:
        if not _FUNCTION.fullmatch(parent.name) or (read_int(parent / "class", 16) or 0) >> 8 != _BRIDGE:
            break
        chain.append(parent)
    yield from chain[::2]


def _link(place: Path, kind: str) -> tuple[float, int] | None:
    match = _SPEED.match(read_text(place / f"{kind}_link_speed") or "")
    width = read_int(place / f"{kind}_link_width")
    # 0 and 255 lanes are what the kernel says where the link is down or unknown.
    return (float(match[1]), width) if match and width and width < 255 else None  # noqa: PLR2004


@check("gpu.bar", severity="warn", profiles=RUN, needs="gpu.supported")
def gpu_bar(look: Look) -> Outcome:
    """The CPU can address all GPU memory (resizable BAR).

    Reads the sizes of the GPU's memory windows (BARs) from `resource` in sysfs. With a window of 256
    MiB or less the Level Zero driver does not start on some cards (on Battlemage, zeInit returns
    ZE_RESULT_ERROR_UNINITIALIZED), and transfers are slow on others. Enable Above 4G Decoding and
    Resizable BAR in the firmware.
    """
    gpus = {gpu.pci_address: gpu for gpu in machine.intel_gpus(look) if not machine.integrated(gpu)}
    known = {address: size for address in gpus if (size := _window(look, address))}
    if not known:
        return skip("no discrete GPU with a known memory window (BAR)")
    small = [address for address, size in known.items() if size <= _SMALL_WINDOW]
    if small:
        shown = (
            f"{machine.named(gpus[name])}: a memory window (BAR) of {known[name] // _MIB} MiB"
            for name in small
        )
        lines = as_root(look, f"lspci -vv -s {small[0]} | grep -i region")
        summary = "enable Above 4G Decoding and Resizable BAR in the machine's firmware settings"
        return finding("; ".join(shown), todo(summary, *lines), bytes=known)
    return ok(commas(f"{name}: {size // _MIB} MiB" for name, size in known.items()), bytes=known)


def _window(look: Look, address: str) -> int:
    """Return the size in bytes of the largest prefetchable window, 0 where it is not known."""
    largest = 0
    for line in (read_text(look.path(f"/sys/bus/pci/devices/{address}/resource")) or "").splitlines():
        try:
            start, end, flags = (int(word, 16) for word in line.split())
        except ValueError:
            continue
        if flags & _PREFETCHABLE and end > start:
            largest = max(largest, end - start + 1)
    return largest

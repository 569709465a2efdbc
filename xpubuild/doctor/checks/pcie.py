"""PCI Express: the link of each GPU compared with the card's maximum, and the size of its memory window."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.fixes import as_root
from xpubuild.doctor.kit import RUN, Look, Outcome, check, commas, finding, ok, skip, todo
from xpubuild.doctor.probes.machine import integrated, intel_gpus, named
from xpubuild.machine.gpus import GpuFacts
from xpubuild.machine.readers import read_int, read_text

_SPEED = re.compile(r"(\d+(?:\.\d+)?)\s*GT/s")
_FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", re.IGNORECASE)
_BRIDGE = 0x0604
_MIB = 1 << 20
_SMALL_WINDOW = 256 * _MIB
_PREFETCHABLE = 0x2000  # IORESOURCE_PREFETCH (include/linux/ioport.h)


@check("gpu.pcie_link", severity="warn", profiles=RUN, needs="gpu.supported")
def gpu_pcie_link(look: Look) -> Outcome:
    """The PCI Express link runs at the card's full speed and width.

    Compares `current_link_speed` and `current_link_width` with `max_link_speed` and `max_link_width` of
    each GPU and, on cards with their own switch, of the switch's upstream port. A narrower link is
    caused by the slot, a riser or a badly seated card. A slower link may also be a GPU that saves power
    while idle: run something on it and check again.
    """
    gpus = [gpu for gpu in intel_gpus(look) if not integrated(gpu)]
    slow, known = [], {}
    for gpu in gpus:
        for place in _downstream_ends(look, gpu):
            now, best = _link(place, "current"), _link(place, "max")
            if now is None or best is None:
                continue
            known[place.name] = f"{now[0]:g} GT/s x{now[1]}"
            if now[0] < best[0] or now[1] < best[1]:
                at = "" if place.name == gpu.pci_address else f" (port {place.name} of its card)"
                slow.append(f"{named(gpu)}{at}: {known[place.name]} of {best[0]:g} GT/s x{best[1]}")
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
    gpus = {gpu.pci_address: gpu for gpu in intel_gpus(look) if not integrated(gpu)}
    known = {address: size for address in gpus if (size := _window(look, address))}
    if not known:
        return skip("no discrete GPU with a known memory window (BAR)")
    small = [address for address, size in known.items() if size <= _SMALL_WINDOW]
    if small:
        told = (f"{named(gpus[name])}: a memory window (BAR) of {known[name] // _MIB} MiB" for name in small)
        lines = as_root(look, f"lspci -vv -s {small[0]} | grep -i region")
        summary = "enable Above 4G Decoding and Resizable BAR in the machine's firmware settings"
        return finding("; ".join(told), todo(summary, *lines), bytes=known)
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

"""Which Intel GPU is here, and whether PyTorch's XPU backend is made for it."""

from __future__ import annotations

import re

from xpubuild.doctor.context import Context
from xpubuild.doctor.fixes import as_root
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.doctor.probes.machine import (
    FLEX,
    RUN,
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
from xpubuild.host.readers import UNKNOWN, entries, exists

# As Linux prints it in sysfs: "0x" and four hexadecimal digits.
_VENDOR = re.compile(r"0x[0-9a-f]{4}")


class GpuPresent(Check):
    """An Intel GPU is on the PCI bus."""

    id = "gpu.present"
    title = "An Intel GPU is here"
    profiles = RUN
    families = ("D-device-node-access",)
    explanation = (
        "Looks at every PCI function of class display controller (0x03) with Intel's vendor id, and at the"
        " render nodes in `/dev/dri`. No driver and no library is needed for it.\n\nA build needs no GPU:"
        " on a machine that only builds, use `--profile build`. A virtual machine sees a GPU when it is"
        " passed through. Under WSL2 the GPU is `/dev/dxg` and not on the PCI bus."
    )

    def run(self, context: Context) -> Outcome:
        """Look at the PCI bus, /dev/dri and, under WSL2, /dev/dxg."""
        gpus = intel_gpus(context)
        if gpus:
            return self.ok(listed(gpus), pci=[gpu.pci_address for gpu in gpus])
        if wsl(context):
            return self._wsl(context)
        if not has_pci(context):
            if not context.live:
                return self.skip("an image without /sys: it has no devices")
            return self.found("there is no PCI bus in /sys to look for a GPU on", _elsewhere(context))
        functions = len(entries(context.path("/sys/bus/pci/devices")))
        nodes = drm_nodes(context)
        detail = (
            f"no Intel GPU: looked at {_count(functions, 'PCI function')} ({_others(context)})"
            f" and at /dev/dri ({', '.join(nodes) or 'no render node'})"
        )
        return self.found(detail, _elsewhere(context), functions=functions, nodes=list(nodes))

    def _wsl(self, context: Context) -> Outcome:
        if exists(context.path("/dev/dxg")):
            return self.ok("WSL2: the GPU is /dev/dxg; what kind it is cannot be seen from here")
        return self.found(
            "WSL2 without /dev/dxg: Windows shares no GPU with this machine",
            Fix(
                "install Intel's Windows driver and update WSL; give a container /dev/dxg instead of"
                " /dev/dri",
                ("wsl.exe --update", "docker run --device /dev/dxg -v /usr/lib/wsl:/usr/lib/wsl ..."),
            ),
        )


def _others(context: Context) -> str:
    """Return in words what display controllers are here, on a machine where none is known to be Intel's."""
    unknown = sum(1 for gpu in context.host.gpus if not _VENDOR.fullmatch(gpu.vendor_id))
    known = len(context.host.gpus) - unknown
    texts = [f"{_count(unknown, 'display controller')} whose vendor cannot be read"] if unknown else []
    if known or not unknown:
        vendors = "another vendor" if known == 1 else "other vendors"
        texts.insert(0, f"{_count(known, 'display controller')} of {vendors}")
    return ", ".join(texts)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _elsewhere(context: Context) -> Fix:
    if contained(context):
        return Fix(
            "run this on a machine with an Intel GPU; a container sees the PCI bus of its host",
            ("lspci -nn -d 8086::0380", "lspci -nn -d 8086::0300"),
        )
    return Fix(
        "run this on a machine with an Intel GPU; to build here for another one, ask about the build alone",
        ("xpubuild doctor --profile build",),
    )


class GpuSupported(Check):
    """At least one GPU is of a family that PyTorch XPU is made for."""

    id = "gpu.supported"
    title = "PyTorch's XPU backend is made for this GPU"
    needs = ("gpu.present",)
    profiles = RUN
    families = ("R-hardware-limits", "Z-single")
    explanation = (
        "Compares the PCI device ids with a table taken from Intel's compute runtime: Data Center GPU Max"
        " (1100, 1350, 1450, 1550 and the parts outside the usual id range), Arc A and B, Core Ultra. An id"
        " that the table lacks on a card of its own is probably newer than the table, which is a warning;"
        " one inside a processor is an older graphics unit, which PyTorch has no kernels for. Flex was"
        " never on upstream's list although its targets were compiled for a while.\n\nWhere GPUs of several"
        " families are here, PyTorch shows all of them, with one set of ahead-of-time kernels; on the"
        " others every kernel is compiled at first use."
    )

    def run(self, context: Context) -> Outcome:
        """Sort the GPUs by what is known of their ids."""
        gpus = intel_gpus(context)
        if not gpus:
            return self.ok("WSL2 does not tell which GPU it is") if wsl(context) else self.skip("no GPU")
        good = [gpu for gpu in gpus if supported(gpu)]
        new = [gpu for gpu in gpus if gpu.family == UNKNOWN and not integrated(gpu)]
        flex = [gpu for gpu in gpus if gpu.family == FLEX]
        families = sorted({gpu.family for gpu in good})
        evidence = {gpu.pci_address: gpu.device_id for gpu in gpus}
        if not (good or new or flex):
            return self.found(
                f"{listed(gpus)}: an integrated GPU from before PyTorch's XPU backend",
                Fix("use a machine with a Data Center GPU Max, Arc or Core Ultra GPU"),
                devices=evidence,
            )
        if not good:
            why = "upstream never listed Flex" if flex else "the table of device ids does not know it"
            return self.warn(
                f"{listed((*flex, *new))}: {why}; whether it works, `xpubuild verify` tells",
                Fix("prove it on the device, or update xpubuild for a newer table", ("xpubuild verify",)),
                devices=evidence,
            )
        if len(families) > 1:
            return self.warn(
                f"GPUs of several families: {listed(good)}; PyTorch shows them all, and a build for one of"
                " them has no kernels for the others ahead of time",
                Fix(
                    "build for all of them (--arch), or show PyTorch one family",
                    ("export ONEAPI_DEVICE_SELECTOR=level_zero:0   # the numbers are those of sycl-ls",),
                ),
                devices=evidence,
                families=families,
            )
        beside = f"; beside it: {listed(new)}, not in the table" if new else ""
        return self.ok(f"{listed(good)}{beside}", devices=evidence, family=families[0])


class GpuNuma(Check):
    """The machine says which NUMA node a discrete GPU belongs to."""

    id = "gpu.numa"
    title = "The NUMA node of each GPU is known"
    severity = "warn"
    needs = ("gpu.supported",)
    profiles = RUN
    explanation = (
        "Reads `numa_node` of each GPU on a machine with several NUMA nodes. A process on the other socket"
        " reaches the GPU over the link between them, at a part of the bandwidth. Where the firmware does"
        " not tell the node, ranks cannot be placed near it."
    )

    def run(self, context: Context) -> Outcome:
        """Compare the nodes of the GPUs with those of the machine."""
        nodes = [
            path for path in entries(context.path("/sys/devices/system/node")) if path.name[4:].isdigit()
        ]
        gpus = [gpu for gpu in intel_gpus(context) if not integrated(gpu)]
        found = {gpu.pci_address: gpu.numa_node for gpu in gpus}
        if len(nodes) <= 1 or not gpus:
            return self.ok("one NUMA node: every GPU is near", nodes=found)
        lost = [gpu for gpu in gpus if gpu.numa_node is None]
        if lost:
            return self.found(
                f"the firmware does not say which of {len(nodes)} NUMA nodes these belong to: {listed(lost)}",
                Fix(
                    "switch NUMA on in the firmware (no node interleaving), or look for the slot in the"
                    " manual",
                    as_root(context, "dmidecode -t slot"),
                ),
                nodes=found,
            )
        return self.ok(", ".join(f"{named(gpu)} is on node {gpu.numa_node}" for gpu in gpus), nodes=found)

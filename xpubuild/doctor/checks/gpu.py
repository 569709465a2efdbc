"""The Intel GPUs, and whether PyTorch's XPU backend supports them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xpubuild.doctor.context import CheckContext
from xpubuild.doctor.fixes import as_root
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.doctor.probes.level_zero import HIERARCHY
from xpubuild.doctor.probes.machine import (
    FLEX,
    MAX,
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
from xpubuild.doctor.probes.selector import SELECTOR, selector_for
from xpubuild.machine.gpus import GpuFacts
from xpubuild.machine.readers import UNKNOWN, entries, exists

# As Linux prints it in sysfs: "0x" and four hexadecimal digits.
_VENDOR = re.compile(r"0x[0-9a-f]{4}")


class GpuPresent(Check):
    """An Intel GPU is on the PCI bus."""

    id = "gpu.present"
    title = "An Intel GPU is present"
    profiles = RUN
    families = ("D-device-node-access",)
    explanation = """
    Checks every PCI function of class display controller (0x03) with Intel's vendor id, and the render
    nodes in `/dev/dri`. This needs no driver and no library.

    A recipe for the CPU needs no GPU, and neither does a build: on a machine that only builds, use
    `--profile build`. A virtual machine has a GPU only if it is passed through. Under WSL2 the GPU is
    `/dev/dxg` and not on the PCI bus.
    """

    def run(self, context: CheckContext) -> Outcome:
        """Look at the PCI bus, /dev/dri and, under WSL2, /dev/dxg."""
        if context.recipe is not None and context.recipe.recipe.target != "xpu":
            return self.skip(f"the recipe {context.recipe.recipe.name} is for the CPU")
        gpus = intel_gpus(context)
        if gpus:
            return self.ok(listed(gpus), pci=[gpu.pci_address for gpu in gpus])
        if wsl(context):
            return self._wsl(context)
        if not has_pci(context):
            if not context.live:
                return self.skip("the image has no /sys, so no devices")
            return self.found("/sys has no PCI bus", _elsewhere(context))
        functions = len(entries(context.path("/sys/bus/pci/devices")))
        nodes = drm_nodes(context)
        detail = (
            f"no Intel GPU: checked {_count(functions, 'PCI function')}{_others(context)}"
            f" and /dev/dri ({', '.join(nodes) or 'no render node'})"
        )
        return self.found(detail, _elsewhere(context), functions=functions, nodes=list(nodes))

    def _wsl(self, context: CheckContext) -> Outcome:
        if exists(context.path("/dev/dxg")):
            return self.ok("WSL2: the GPU is /dev/dxg; its model cannot be read under WSL2")
        return self.found(
            "WSL2 without /dev/dxg: Windows provides no GPU to this machine",
            Fix(
                "install Intel's Windows driver and update WSL; pass /dev/dxg instead of /dev/dri"
                " to containers",
                ("wsl.exe --update", "docker run --device /dev/dxg -v /usr/lib/wsl:/usr/lib/wsl ..."),
            ),
        )


def _others(context: CheckContext) -> str:
    """Return a text about the display controllers, none of which is known to be from Intel."""
    unknown = sum(1 for gpu in context.host.gpus if not _VENDOR.fullmatch(gpu.vendor_id))
    known = len(context.host.gpus) - unknown
    texts = [f"{_count(unknown, 'display controller')} whose vendor cannot be read"] if unknown else []
    if known:
        vendors = "another vendor" if known == 1 else "other vendors"
        texts.insert(0, f"{_count(known, 'display controller')} of {vendors}")
    return f" ({', '.join(texts)})" if texts else ""


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _elsewhere(context: CheckContext) -> Fix:
    if contained(context):
        return Fix(
            "run this on a machine with an Intel GPU; a container sees the PCI bus of its host",
            ("lspci -nn -d 8086::0380", "lspci -nn -d 8086::0300"),
        )
    return Fix(
        "run this on a machine with an Intel GPU; to only build here, check for a build",
        ("xpubuild doctor --profile build",),
    )


class GpuSupported(Check):
    """At least one GPU is of a family that PyTorch XPU is made for."""

    id = "gpu.supported"
    title = "PyTorch's XPU backend supports this GPU"
    needs = ("gpu.present",)
    profiles = RUN
    families = ("R-hardware-limits", "Z-single")
    explanation = """
    Compares the PCI device ids with a table from Intel's compute runtime: Data Center GPU Max (1100,
    1350, 1450, 1550 and parts outside the usual id range), Arc A and B, Core Ultra. If the id of a
    discrete card is not in the table, the card is probably newer than the table, which is a warning. If
    the id of an integrated GPU is not in the table, it is an older generation that PyTorch has no
    kernels for. Flex was never on PyTorch's list of supported GPUs, although kernels were compiled for
    it for a while.

    If there are GPUs of several families, PyTorch uses all of them, with one set of ahead-of-time
    kernels; on the other families every kernel is compiled at first use.
    """

    def run(self, context: CheckContext) -> Outcome:
        """Sort the GPUs by what is known of their ids."""
        gpus = intel_gpus(context)
        if not gpus:
            return self.ok("the GPU model cannot be read under WSL2") if wsl(context) else self.skip("no GPU")
        good = [gpu for gpu in gpus if supported(gpu)]
        new = [gpu for gpu in gpus if gpu.family == UNKNOWN and not integrated(gpu)]
        flex = [gpu for gpu in gpus if gpu.family == FLEX]
        families = sorted({gpu.family for gpu in good})
        evidence = {gpu.pci_address: gpu.device_id for gpu in gpus}
        if not (good or new or flex):
            return self.found(
                f"{listed(gpus)}: an integrated GPU that PyTorch's XPU backend does not support",
                Fix("use a machine with a Data Center GPU Max, Arc or Core Ultra GPU"),
                devices=evidence,
            )
        if not good:
            why = "PyTorch never listed Flex as supported" if flex else "its device id is unknown"
            return self.warn(
                f"{listed((*flex, *new))}: {why}; `xpubuild verify` tests whether it works",
                Fix("test it on the device, or update xpubuild for newer device ids", ("xpubuild verify",)),
                devices=evidence,
            )
        if len(families) > 1:
            return self.warn(
                f"GPUs of several families: {listed(good)}; PyTorch lists them all, but a build for one of"
                " them has no precompiled kernels for the others",
                Fix(
                    "build for all of them (--arch), or limit PyTorch to one family",
                    (_only_one_family(context, good),),
                ),
                devices=evidence,
                families=families,
            )
        beside = f"; also {listed(new)}, with an unknown device id" if new else ""
        return self.ok(f"{listed(good)}{beside}", devices=evidence, family=families[0])


def _only_one_family(context: CheckContext, gpus: Sequence[GpuFacts]) -> str:
    """Return the command that limits SYCL to one family: Max where there is one, else the first discrete.

    Without COMPOSITE every tile has a number of its own: one number would leave one tile of a card.
    """
    first = min(gpus, key=lambda gpu: (gpu.family != MAX, integrated(gpu)))
    kept = [gpu for gpu in gpus if gpu.family == first.family]
    composite = context.environ.get(HIERARCHY, "").upper() == "COMPOSITE"
    devices = len(kept) if composite else sum(gpu.tiles or 1 for gpu in kept)
    what = f"{devices} {'cards' if composite else 'tiles'} of {first.family}" if devices > 1 else first.family
    return f"export {SELECTOR}={selector_for(range(devices))}   # {what}; compare the numbers with sycl-ls"


class GpuNuma(Check):
    """The machine says which NUMA node a discrete GPU belongs to."""

    id = "gpu.numa"
    title = "The NUMA node of each GPU is known"
    severity = "warn"
    needs = ("gpu.supported",)
    profiles = RUN
    explanation = """
    Reads `numa_node` of each GPU on a machine with several NUMA nodes. A process on another socket
    accesses the GPU over the link between the sockets, with less bandwidth. If the firmware does not
    report the node, ranks cannot be placed near the GPU.
    """

    def run(self, context: CheckContext) -> Outcome:
        """Compare the nodes of the GPUs with those of the machine."""
        nodes = [
            path for path in entries(context.path("/sys/devices/system/node")) if path.name[4:].isdigit()
        ]
        gpus = [gpu for gpu in intel_gpus(context) if not integrated(gpu)]
        found = {gpu.pci_address: gpu.numa_node for gpu in gpus}
        if len(nodes) <= 1 or not gpus:
            return self.ok("the machine has one NUMA node", nodes=found)
        lost = [gpu for gpu in gpus if gpu.numa_node is None]
        if lost:
            return self.found(
                f"the firmware does not report which of {len(nodes)} NUMA nodes these GPUs belong to:"
                f" {listed(lost)}",
                Fix(
                    "enable NUMA in the firmware (no node interleaving), or find the slot in the manual",
                    as_root(context, "dmidecode -t slot"),
                ),
                nodes=found,
            )
        return self.ok(", ".join(f"{named(gpu)} is on node {gpu.numa_node}" for gpu in gpus), nodes=found)

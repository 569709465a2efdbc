"""The Intel GPUs, and whether PyTorch's XPU backend supports them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xpubuild.doctor.fixes import as_root
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok, skip, warn
from xpubuild.doctor.probes.level_zero import HIERARCHY
from xpubuild.doctor.probes.machine import (
    FLEX,
    MAX,
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


@check("gpu.present", profiles=RUN, families=("D-device-node-access",))
def gpu_present(look: Look) -> Outcome:
    """An Intel GPU is present.

    Checks every PCI function of class display controller (0x03) with Intel's vendor id, and the render
    nodes in `/dev/dri`. This needs no driver and no library.

    A recipe for the CPU needs no GPU, and neither does a build: on a machine that only builds, use
    `--profile build`. A virtual machine has a GPU only if it is passed through. Under WSL2 the GPU is
    `/dev/dxg` and not on the PCI bus.
    """
    if look.recipe is not None and look.recipe.recipe.target != "xpu":
        return skip(f"the recipe {look.recipe.recipe.name} is for the CPU")
    gpus = intel_gpus(look)
    if gpus:
        return ok(listed(gpus), pci=[gpu.pci_address for gpu in gpus])
    if wsl(look):
        return _wsl(look)
    if not has_pci(look):
        if not look.live:
            return skip("the image has no /sys, so no devices")
        return finding("/sys has no PCI bus", _elsewhere(look))
    functions = len(entries(look.path("/sys/bus/pci/devices")))
    nodes = drm_nodes(look)
    detail = (
        f"no Intel GPU: checked {_count(functions, 'PCI function')}{_others(look)}"
        f" and /dev/dri ({', '.join(nodes) or 'no render node'})"
    )
    return finding(detail, _elsewhere(look), functions=functions, nodes=list(nodes))


def _wsl(look: Look) -> Outcome:
    if exists(look.path("/dev/dxg")):
        return ok("WSL2: the GPU is /dev/dxg; its model cannot be read under WSL2")
    return finding(
        "WSL2 without /dev/dxg: Windows provides no GPU to this machine",
        Fix(
            "install Intel's Windows driver and update WSL; pass /dev/dxg instead of /dev/dri to containers",
            ("wsl.exe --update", "docker run --device /dev/dxg -v /usr/lib/wsl:/usr/lib/wsl ..."),
        ),
    )


def _others(look: Look) -> str:
    """Return a text about the display controllers, none of which is known to be from Intel."""
    unknown = sum(1 for gpu in look.host.gpus if not _VENDOR.fullmatch(gpu.vendor_id))
    known = len(look.host.gpus) - unknown
    texts = [f"{_count(unknown, 'display controller')} whose vendor cannot be read"] if unknown else []
    if known:
        vendors = "another vendor" if known == 1 else "other vendors"
        texts.insert(0, f"{_count(known, 'display controller')} of {vendors}")
    return f" ({', '.join(texts)})" if texts else ""


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _elsewhere(look: Look) -> Fix:
    if contained(look):
        return Fix(
            "run this on a machine with an Intel GPU; a container sees the PCI bus of its host",
            ("lspci -nn -d 8086::0380", "lspci -nn -d 8086::0300"),
        )
    return Fix(
        "run this on a machine with an Intel GPU; to only build here, check for a build",
        ("xpubuild doctor --profile build",),
    )


@check("gpu.supported", profiles=RUN, needs=("gpu.present",), families=("R-hardware-limits", "Z-single"))
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
    evidence = {gpu.pci_address: gpu.device_id for gpu in gpus}
    if not (good or new or flex):
        return finding(
            f"{listed(gpus)}: an integrated GPU that PyTorch's XPU backend does not support",
            Fix("use a machine with a Data Center GPU Max, Arc or Core Ultra GPU"),
            devices=evidence,
        )
    if not good:
        why = "PyTorch never listed Flex as supported" if flex else "its device id is unknown"
        return warn(
            f"{listed((*flex, *new))}: {why}; `xpubuild verify` tests whether it works",
            Fix("test it on the device, or update xpubuild for newer device ids", ("xpubuild verify",)),
            devices=evidence,
        )
    if len(families) > 1:
        return warn(
            f"GPUs of several families: {listed(good)}; PyTorch lists them all, but a build for one of"
            " them has no precompiled kernels for the others",
            Fix(
                "build for all of them (--arch), or limit PyTorch to one family",
                (_only_one_family(look, good),),
            ),
            devices=evidence,
            families=families,
        )
    beside = f"; also {listed(new)}, with an unknown device id" if new else ""
    return ok(f"{listed(good)}{beside}", devices=evidence, family=families[0])


def _only_one_family(look: Look, gpus: Sequence[GpuFacts]) -> str:
    """Return the command that limits SYCL to one family: Max where there is one, else the first discrete.

    Without COMPOSITE every tile has a number of its own: one number would leave one tile of a card.
    """
    first = min(gpus, key=lambda gpu: (gpu.family != MAX, integrated(gpu)))
    kept = [gpu for gpu in gpus if gpu.family == first.family]
    composite = look.environ.get(HIERARCHY, "").upper() == "COMPOSITE"
    devices = len(kept) if composite else sum(gpu.tiles or 1 for gpu in kept)
    what = f"{devices} {'cards' if composite else 'tiles'} of {first.family}" if devices > 1 else first.family
    return f"export {SELECTOR}={selector_for(range(devices))}   # {what}; compare the numbers with sycl-ls"


@check("gpu.numa", severity="warn", profiles=RUN, needs=("gpu.supported",))
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
    lost = [gpu for gpu in gpus if gpu.numa_node is None]
    if lost:
        return finding(
            f"the firmware does not report which of {len(nodes)} NUMA nodes these GPUs belong to:"
            f" {listed(lost)}",
            Fix(
                "enable NUMA in the firmware (no node interleaving), or find the slot in the manual",
                as_root(look, "dmidecode -t slot"),
            ),
            nodes=found,
        )
    return ok(", ".join(f"{named(gpu)} is on node {gpu.numa_node}" for gpu in gpus), nodes=found)

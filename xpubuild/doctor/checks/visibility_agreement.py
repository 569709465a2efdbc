"""Compares the GPUs of PCI, DRM, Level Zero, OpenCL, SYCL and torch; differences without a reason are
failures."""

from __future__ import annotations

from dataclasses import dataclass, field

from xpubuild.doctor.checks.torch_import import ended, not_imported
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok
from xpubuild.doctor.probes.level_zero import HIERARCHY, MASK, enumeration, unmasked
from xpubuild.doctor.probes.machine import bound_gpus, intel_gpus, listed, supported
from xpubuild.doctor.probes.opencl import opencl_gpus
from xpubuild.doctor.probes.selector import SELECTOR, SelectorError, visible
from xpubuild.doctor.probes.sycl import sycl_devices
from xpubuild.doctor.probes.torch_count import torch_count


@dataclass
class _Story:
    """The GPUs of each layer, the reasons for differences, and differences without a reason."""

    counts: dict[str, int | None] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def told(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in self.counts.items() if count is not None)


@check(
    "gpu.agreement",
    profiles=RUN,
    needs=("level_zero.enumerate", "gpu.render_access", "gpu.hidden"),
    live=True,
    families=("E-level-zero-driver-or-loader-version", "A-conda-or-mixed-libstdcxx", "Z-single"),
    deadline_s=80,
)
def gpu_agreement(look: Look) -> Outcome:
    """PCI, DRM, Level Zero, OpenCL, SYCL and torch report the same GPUs.

    Counts the GPUs that each layer reports. A difference may have a known reason: no kernel driver, a
    render node that cannot be opened, tiles reported as separate devices, a mask or a selector, an
    integrated GPU that PyTorch ignores if there is a discrete one, or a torch that is not built for
    XPU. A difference without such a reason is a failure: Level Zero lists fewer cards than can be
    opened (a driver that does not support the card, or a bug such as the one with several Battlemage
    cards in compute-runtime 25.44), or torch reports fewer devices than Level Zero (its SYCL runtime
    could not load the Level Zero adapter: run with `SYCL_UR_TRACE=1`).
    """
    story = _Story()
    _kernel(look, story)
    seen = _level_zero(look, story)
    story.counts["OpenCL"] = len(opencl_gpus(look).gpus)
    if not story.counts["OpenCL"]:
        story.reasons.append("OpenCL has no GPU, but PyTorch does not need it")
    sycl = sycl_devices(look)
    story.counts["SYCL"] = sycl.count("level_zero") if sycl.program else None
    _torch(look, story, seen)
    evidence = {"counts": story.counts, "reasons": story.reasons, "unexplained": story.open}
    because = f" ({'; '.join(story.reasons)})" if story.reasons else ""
    if story.open:
        fix = Fix(
            "install compatible releases of loader, driver and kernel driver, and check what the SYCL"
            " runtime"
            " loads",
            ("SYCL_UR_TRACE=1 sycl-ls", "ZE_ENABLE_LOADER_DEBUG_TRACE=1 sycl-ls"),
        )
        return finding(f"{'; '.join(story.open)}; {story.told()}{because}", fix, **evidence)
    return ok(f"{story.told()}{because}", **evidence)


def _kernel(look: Look, story: _Story) -> None:
    pci, bound = intel_gpus(look), bound_gpus(look)
    openable = [gpu for gpu in bound if gpu.accessible]
    story.counts.update({"PCI": len(pci), "DRM": sum(1 for gpu in bound if gpu.render_node)})
    if len(bound) < len(pci):
        story.reasons.append(f"{len(pci) - len(bound)} without a kernel driver")
    if len(openable) < len(bound):
        story.reasons.append(f"{len(bound) - len(openable)} with a render node that this user cannot open")


def _level_zero(look: Look, story: _Story) -> int:
    """Compare cards by PCI address; return how many devices a SYCL program should see."""
    devices = unmasked(look).gpus
    cards = {str(device["pci_address"]) for device in devices}
    openable = [gpu for gpu in bound_gpus(look) if gpu.accessible]
    story.counts["Level Zero"] = len(devices)
    missing = [gpu for gpu in openable if gpu.pci_address not in cards]
    if "None" in cards:  # an old driver does not report addresses
        missing = openable[len(devices) :]
    unknown = [gpu for gpu in missing if not supported(gpu)]
    if unknown:
        story.reasons.append(f"the driver does not support {listed(unknown)}")
    lost = [gpu for gpu in missing if supported(gpu)]
    if lost:
        story.open.append(f"Level Zero does not list {listed(lost)}")
    if len(devices) > len(cards):
        story.reasons.append(f"{len(devices)} tiles of {len(cards)} cards are separate devices")
    elif any(len(device.get("tiles", ())) > 1 for device in devices):
        chosen = look.environ.get(HIERARCHY)
        told = f"{HIERARCHY}={chosen}" if chosen else f"{HIERARCHY} is not set"
        story.reasons.append(f"{told}: a card is one device")
    left = enumeration(look).gpus
    try:
        seen = visible(look.environ.get(SELECTOR, ""), [len(device.get("tiles", ())) for device in left])
    except SelectorError:
        seen = len(left)
    if seen < len(devices):
        story.reasons.append(f"{MASK} or {SELECTOR} hides {len(devices) - seen}")
    return seen


def _torch(look: Look, story: _Story, seen: int) -> None:
    torch = torch_count(look)
    if not_imported(torch):
        story.reasons.append("torch cannot be imported, see torch.import")
    if torch.version is None:
        return
    if torch.ending is not None and torch.ending.how != "ok":
        story.open.append(ended(torch.ending, f"torch {torch.version}"))
        return
    story.counts["torch"] = torch.count
    integrated = sum(1 for device in enumeration(look).gpus if device["integrated"])
    if not torch.built:
        story.reasons.append(f"torch {torch.version} is not built for XPU")
    elif torch.count == seen - integrated != seen:
        story.reasons.append("PyTorch ignores integrated GPUs if there is a discrete one")
    elif torch.count < seen:
        story.open.append(f"torch {torch.version} reports {torch.count} of {seen} devices")

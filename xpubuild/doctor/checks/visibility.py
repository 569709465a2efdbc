"""Environment variables that decide which devices programs see: masks, selectors, the tile hierarchy."""

from __future__ import annotations

from collections.abc import Iterator

from xpubuild.doctor.checks.level_zero import unanswered
from xpubuild.doctor.context import CheckContext
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.doctor.probes.children import CHECK_DEADLINE_S
from xpubuild.doctor.probes.level_zero import (
    HIERARCHY,
    MASK,
    UNINITIALIZED,
    Enumeration,
    enumeration,
    result_name,
    unmasked,
)
from xpubuild.doctor.probes.machine import RUN, intel_gpus
from xpubuild.doctor.probes.selector import SELECTOR, SelectorError, selector_for, visible, whole

_FAMILIES = ("Z-single",)
_HIERARCHIES = ("FLAT", "COMPOSITE", "COMBINED")
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "FLUX_JOB_ID", "COBALT_JOBID")
_RANKS = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


class Hidden(Check):
    """No environment variable hides GPUs from programs."""

    id = "gpu.hidden"
    title = "No environment variable hides GPUs"
    needs = ("level_zero.enumerate",)
    profiles = RUN
    live = True
    families = _FAMILIES
    deadline_s = CHECK_DEADLINE_S
    explanation = """
    Lists the Level Zero devices with and without `ZE_AFFINITY_MASK`, and applies
    `ONEAPI_DEVICE_SELECTOR` by the rules of the SYCL runtime. If no GPU remains, that is a failure. If
    some GPUs are hidden, that is a warning, except in a batch job, where the scheduler hides the GPUs
    of other jobs.

    In distributed runs, a different mask for each rank hides the other ranks' devices from oneCCL, and
    its collectives hang. Select the device by its index instead.
    """

    def run(self, context: CheckContext) -> Outcome:
        """Count with and without."""
        everything = context.probe(unmasked).gpus
        mask, selector = context.environ.get(MASK, ""), context.environ.get(SELECTOR, "")
        left = context.probe(enumeration).gpus if mask else everything
        unset = Fix("unset it, or set it to the devices that programs should use", (f"unset {MASK}",))
        evidence = {"all": len(everything), MASK: mask, SELECTOR: selector, "after_mask": len(left)}
        masked = context.probe(enumeration)
        if mask and masked.ending.how == "missing":
            return unanswered(masked)
        if mask and (trouble := _trouble(masked)):
            return self.found(f"with {MASK}={mask}, but not without it, {trouble}", unset, **evidence)
        if not left:
            return self.found(f"{MASK}={mask} hides all {len(everything)} devices", unset, **evidence)
        try:
            seen = visible(selector, [len(device.get("tiles", ())) for device in left])
        except SelectorError as error:
            fix = Fix(
                "correct it; with this value every SYCL program fails with an exception",
                (f"unset {SELECTOR}",),
            )
            return self.found(f"{SELECTOR}={selector}: {error}", fix, **evidence)
        evidence["visible"] = seen
        if not seen:
            fix = Fix(
                "unset it, or select Level Zero's GPUs",
                (f"unset {SELECTOR}", f"export {SELECTOR}=level_zero:gpu"),
            )
            return self.found(
                f"{SELECTOR}={selector} hides all {len(left)} devices from PyTorch", fix, **evidence
            )
        return self._some(context, len(everything), seen, evidence)

    def _some(
        self, context: CheckContext, everything: int, seen: int, evidence: dict[str, object]
    ) -> Outcome:
        names = [name for name in (MASK, SELECTOR) if evidence[name]]
        told = f"{' and '.join(f'{name}={evidence[name]}' for name in names)}: {seen} of {everything} devices"
        if evidence[MASK] and any(_ranks(context)):
            return self.warn(
                f"{told}; a different {MASK} for each rank hides the other ranks' devices from oneCCL, whose"
                " collectives then hang",
                Fix("select the device by its index, xpu:LOCAL_RANK", (f"unset {MASK}",)),
                **evidence,
            )
        if seen >= everything:
            return self.ok(f"all {everything} devices are visible", **evidence)
        if any(context.environ.get(name) for name in _JOBS):
            return self.ok(f"{told}, in a batch job", **evidence)
        unset = f"unset {' '.join(names)}"
        if cut := _cut_cards(context):
            fix = Fix("select every tile of the card, or unset it to use all devices", (cut, unset))
            return self.warn(f"{told}; a part of a card's tiles is left", fix, **evidence)
        return self.warn(told, Fix("unset it to use all devices", (unset,)), **evidence)


def _cut_cards(context: CheckContext) -> str:
    """Return the command that selects all tiles of each card of which the selector leaves only some."""
    value = context.environ.get(SELECTOR, "")
    cards = [device.get("pci_address") for device in context.probe(enumeration).gpus]
    seen = whole(value, len(cards)) if value else ()
    some = {cards[number] for number in seen}
    numbers = [number for number, card in enumerate(cards) if card is not None and card in some]
    return f"export {SELECTOR}={selector_for(numbers)}" if len(numbers) > len(seen) else ""


def _trouble(found: Enumeration) -> str:
    """Return the error of an enumeration, or an empty text; an empty list of devices is not an error.

    If a mask hides all devices, no driver initialises, and zeInit returns ZE_RESULT_ERROR_UNINITIALIZED.
    """
    if found.ending.how != "ok":
        return found.ending.told("the device enumeration")
    if found.code not in (None, 0, UNINITIALIZED):
        return f"{found.ending.stage} returned {result_name(int(found.code or 0))}"
    return ""


def _ranks(context: CheckContext) -> Iterator[bool]:
    for name in _RANKS:
        value = context.environ.get(name, "")
        yield value.isdigit() and int(value) > 1


class Hierarchy(Check):
    """Tiles are shown as devices, as programs expect."""

    id = "gpu.hierarchy"
    title = "Each GPU tile is a separate device (ZE_FLAT_DEVICE_HIERARCHY)"
    severity = "warn"
    needs = ("gpu.supported",)
    profiles = RUN
    families = _FAMILIES
    explanation = """
    With FLAT, the default of current drivers, every tile of a multi-tile GPU is a device: a node with
    six Max 1550 has twelve. With COMPOSITE a card is one device, so there are half as many, each with
    twice the memory, and the driver distributes work over the tiles. With COMBINED each tile is a
    device that knows its card. Launchers that expect one mode compute wrong local ranks in another:
    derive ranks from `torch.xpu.device_count()`. Other values are ignored without a message.
    """

    def run(self, context: CheckContext) -> Outcome:
        """Look at the variable, and at how many devices it makes."""
        value = context.environ.get(HIERARCHY, "")
        gpus = intel_gpus(context)
        tiles = sum(gpu.tiles or 1 for gpu in gpus)
        counts = {"cards": len(gpus), "tiles": tiles, HIERARCHY: value}
        fix = Fix("unset it, unless a program requires it", (f"unset {HIERARCHY}",))
        if value and value.upper() not in _HIERARCHIES:
            return self.found(
                f"{HIERARCHY}={value} is not one of {', '.join(_HIERARCHIES)}; the driver uses its default",
                fix,
                **counts,
            )
        if value.upper() == "COMPOSITE" and tiles > len(gpus):
            return self.found(
                f"{HIERARCHY}={value}: {len(gpus)} devices, one for each card, instead of {tiles}, one for"
                " each tile",
                fix,
                **counts,
            )
        return self.ok(f"{value or 'FLAT, by default'}: {tiles} devices on {len(gpus)} cards", **counts)

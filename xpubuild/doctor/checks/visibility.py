"""What the environment lets programs see: masks, selectors and the hierarchy of tiles."""

from __future__ import annotations

from collections.abc import Iterator

from xpubuild.doctor.checks.level_zero import unanswered
from xpubuild.doctor.context import Context
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
from xpubuild.doctor.probes.selector import SELECTOR, SelectorError, visible

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
    explanation = (
        "Enumerates Level Zero with and without `ZE_AFFINITY_MASK`, and works out what"
        " `ONEAPI_DEVICE_SELECTOR` leaves of it by the rules of the SYCL runtime. Where nothing is left,"
        " that is a failure; where some GPUs are hidden, a warning, and inside a batch job, whose scheduler"
        " hides the GPUs of others, no finding.\n\nA mask for each rank of a distributed run hides the"
        " other ranks' devices from oneCCL, whose collectives then hang: choose the device by its index"
        " instead."
    )

    def run(self, context: Context) -> Outcome:
        """Count with and without."""
        everything = context.probe(unmasked).gpus
        mask, selector = context.environ.get(MASK, ""), context.environ.get(SELECTOR, "")
        left = context.probe(enumeration).gpus if mask else everything
        unset = Fix("unset it, or name the devices that programs shall have", (f"unset {MASK}",))
        evidence = {"all": len(everything), MASK: mask, SELECTOR: selector, "after_mask": len(left)}
        masked = context.probe(enumeration)
        if mask and masked.ending.how == "missing":
            return unanswered(masked)
        if mask and (trouble := _trouble(masked)):
            return self.found(f"with {MASK}={mask}, and not without it, {trouble}", unset, **evidence)
        if not left:
            return self.found(f"{MASK}={mask} hides all {len(everything)} devices", unset, **evidence)
        try:
            seen = visible(selector, [len(device.get("tiles", ())) for device in left])
        except SelectorError as error:
            fix = Fix("correct it; every SYCL program ends with an exception", (f"unset {SELECTOR}",))
            return self.found(f"{SELECTOR}={selector}: {error}", fix, **evidence)
        evidence["visible"] = seen
        if not seen:
            fix = Fix(
                "unset it, or name Level Zero's GPUs",
                (f"unset {SELECTOR}", f"export {SELECTOR}=level_zero:gpu"),
            )
            return self.found(
                f"{SELECTOR}={selector} leaves PyTorch none of {len(left)} devices", fix, **evidence
            )
        return self._some(context, len(everything), seen, evidence)

    def _some(self, context: Context, everything: int, seen: int, evidence: dict[str, object]) -> Outcome:
        names = [name for name in (MASK, SELECTOR) if evidence[name]]
        told = f"{' and '.join(f'{name}={evidence[name]}' for name in names)}: {seen} of {everything} devices"
        if evidence[MASK] and any(_ranks(context)):
            return self.warn(
                f"{told}; {MASK} for each rank hides the other ranks' devices from oneCCL, whose"
                " collectives then hang",
                Fix("choose the device by its index, xpu:LOCAL_RANK", (f"unset {MASK}",)),
                **evidence,
            )
        if seen >= everything:
            return self.ok(f"all {everything} devices are visible", **evidence)
        if any(context.environ.get(name) for name in _JOBS):
            return self.ok(f"{told}, inside a batch job", **evidence)
        return self.warn(told, Fix("unset it to have all of them", (f"unset {' '.join(names)}",)), **evidence)


def _trouble(found: Enumeration) -> str:
    """Say what went wrong in an enumeration that was no answer; that nothing is left is an answer.

    Where a mask leaves no device, no driver starts, and zeInit says so with ZE_RESULT_ERROR_UNINITIALIZED.
    """
    if found.ending.how != "ok":
        return found.ending.told("the enumeration")
    if found.code not in (None, 0, UNINITIALIZED):
        return f"{found.ending.stage} says {result_name(int(found.code or 0))}"
    return ""


def _ranks(context: Context) -> Iterator[bool]:
    for name in _RANKS:
        value = context.environ.get(name, "")
        yield value.isdigit() and int(value) > 1


class Hierarchy(Check):
    """Tiles are shown as devices, as programs expect."""

    id = "gpu.hierarchy"
    title = "Each tile of a GPU is a device (ZE_FLAT_DEVICE_HIERARCHY)"
    severity = "warn"
    needs = ("gpu.supported",)
    profiles = RUN
    families = _FAMILIES
    explanation = (
        "With FLAT, the default of current drivers, every tile of a GPU with several tiles is a device: a"
        " node with six Max 1550 shows twelve. With COMPOSITE a card is one device, so half as many are"
        " shown, each with twice the memory, and work is split over the tiles by the driver. COMBINED shows"
        " tiles that know their card. Launchers that count on the one get wrong local ranks with the other:"
        " derive ranks from `torch.xpu.device_count()`. Another value is ignored without a message."
    )

    def run(self, context: Context) -> Outcome:
        """Look at the variable, and at how many devices it makes."""
        value = context.environ.get(HIERARCHY, "")
        gpus = intel_gpus(context)
        tiles = sum(gpu.tiles or 1 for gpu in gpus)
        counts = {"cards": len(gpus), "tiles": tiles, HIERARCHY: value}
        fix = Fix("unset it, unless a program asks for it", (f"unset {HIERARCHY}",))
        if value and value.upper() not in _HIERARCHIES:
            return self.found(
                f"{HIERARCHY}={value} is none of {', '.join(_HIERARCHIES)}; the driver takes its default",
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

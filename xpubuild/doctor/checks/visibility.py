"""Environment variables that decide which devices programs see: masks, selectors, the tile hierarchy."""

from __future__ import annotations

from collections.abc import Iterator

from xpubuild.doctor.checks.level_zero import unanswered
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok, warn
from xpubuild.doctor.probes.level_zero import (
    HIERARCHY,
    MASK,
    UNINITIALIZED,
    Enumeration,
    enumeration,
    result_name,
    unmasked,
)
from xpubuild.doctor.probes.machine import intel_gpus
from xpubuild.doctor.probes.selector import SELECTOR, SelectorError, selector_for, visible, whole

_FAMILIES = ("Z-single",)
_HIERARCHIES = ("FLAT", "COMPOSITE", "COMBINED")
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "FLUX_JOB_ID", "COBALT_JOBID")
_RANKS = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


@check(
    "gpu.hidden", profiles=RUN, needs=("level_zero.enumerate",), live=True, families=_FAMILIES, deadline_s=20
)
def gpu_hidden(look: Look) -> Outcome:
    """No environment variable hides GPUs.

    Lists the Level Zero devices with and without `ZE_AFFINITY_MASK`, and applies
    `ONEAPI_DEVICE_SELECTOR` by the rules of the SYCL runtime. If no GPU remains, that is a failure. If
    some GPUs are hidden, that is a warning, except in a batch job, where the scheduler hides the GPUs
    of other jobs.

    In distributed runs, a different mask for each rank hides the other ranks' devices from oneCCL, and
    its collectives hang. Select the device by its index instead.
    """
    everything = unmasked(look).gpus
    mask, selector = look.environ.get(MASK, ""), look.environ.get(SELECTOR, "")
    left = enumeration(look).gpus if mask else everything
    unset = Fix("unset it, or set it to the devices that programs should use", (f"unset {MASK}",))
    evidence = {"all": len(everything), MASK: mask, SELECTOR: selector, "after_mask": len(left)}
    masked = enumeration(look)
    if mask and masked.ending.how == "missing":
        return unanswered(masked)
    if mask and (trouble := _trouble(masked)):
        return finding(f"with {MASK}={mask}, but not without it, {trouble}", unset, **evidence)
    if not left:
        return finding(f"{MASK}={mask} hides all {len(everything)} devices", unset, **evidence)
    try:
        seen = visible(selector, [len(device.get("tiles", ())) for device in left])
    except SelectorError as error:
        fix = Fix(
            "correct it; with this value every SYCL program fails with an exception", (f"unset {SELECTOR}",)
        )
        return finding(f"{SELECTOR}={selector}: {error}", fix, **evidence)
    evidence["visible"] = seen
    if not seen:
        fix = Fix(
            "unset it, or select Level Zero's GPUs",
            (f"unset {SELECTOR}", f"export {SELECTOR}=level_zero:gpu"),
        )
        return finding(f"{SELECTOR}={selector} hides all {len(left)} devices from PyTorch", fix, **evidence)
    return _some(look, len(everything), seen, evidence)


def _some(look: Look, everything: int, seen: int, evidence: dict[str, object]) -> Outcome:
    names = [name for name in (MASK, SELECTOR) if evidence[name]]
    told = f"{' and '.join(f'{name}={evidence[name]}' for name in names)}: {seen} of {everything} devices"
    if evidence[MASK] and any(_ranks(look)):
        return warn(
            f"{told}; a different {MASK} for each rank hides the other ranks' devices from oneCCL, whose"
            " collectives then hang",
            Fix("select the device by its index, xpu:LOCAL_RANK", (f"unset {MASK}",)),
            **evidence,
        )
    if seen >= everything:
        return ok(f"all {everything} devices are visible", **evidence)
    if any(look.environ.get(name) for name in _JOBS):
        return ok(f"{told}, in a batch job", **evidence)
    unset = f"unset {' '.join(names)}"
    if cut := _cut_cards(look):
        fix = Fix("select every tile of the card, or unset it to use all devices", (cut, unset))
        return warn(f"{told}; a part of a card's tiles is left", fix, **evidence)
    return warn(told, Fix("unset it to use all devices", (unset,)), **evidence)


def _cut_cards(look: Look) -> str:
    """Return the command that selects all tiles of each card of which the selector leaves only some."""
    value = look.environ.get(SELECTOR, "")
    cards = [device.get("pci_address") for device in enumeration(look).gpus]
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


def _ranks(look: Look) -> Iterator[bool]:
    for name in _RANKS:
        value = look.environ.get(name, "")
        yield value.isdigit() and int(value) > 1


@check("gpu.hierarchy", severity="warn", profiles=RUN, needs=("gpu.supported",), families=_FAMILIES)
def gpu_hierarchy(look: Look) -> Outcome:
    """Each GPU tile is a separate device (ZE_FLAT_DEVICE_HIERARCHY).

    With FLAT, the default of current drivers, every tile of a multi-tile GPU is a device: a node with
    six Max 1550 has twelve. With COMPOSITE a card is one device, so there are half as many, each with
    twice the memory, and the driver distributes work over the tiles. With COMBINED each tile is a
    device that knows its card. Launchers that expect one mode compute wrong local ranks in another:
    derive ranks from `torch.xpu.device_count()`. Other values are ignored without a message.
    """
    value = look.environ.get(HIERARCHY, "")
    gpus = intel_gpus(look)
    tiles = sum(gpu.tiles or 1 for gpu in gpus)
    counts = {"cards": len(gpus), "tiles": tiles, HIERARCHY: value}
    fix = Fix("unset it, unless a program requires it", (f"unset {HIERARCHY}",))
    if value and value.upper() not in _HIERARCHIES:
        return finding(
            f"{HIERARCHY}={value} is not one of {', '.join(_HIERARCHIES)}; the driver uses its default",
            fix,
            **counts,
        )
    if value.upper() == "COMPOSITE" and tiles > len(gpus):
        return finding(
            f"{HIERARCHY}={value}: {len(gpus)} devices, one for each card, instead of {tiles}, one for"
            " each tile",
            fix,
            **counts,
        )
    return ok(f"{value or 'FLAT, by default'}: {tiles} devices on {len(gpus)} cards", **counts)

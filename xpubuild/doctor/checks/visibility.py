"""Which devices programs see: masks, selectors, the tile hierarchy, and whether all layers agree."""

from __future__ import annotations

from xpubuild.doctor.checks.level_zero import unanswered
from xpubuild.doctor.checks.runtimes import ended, not_imported
from xpubuild.doctor.kit import RUN, Look, Outcome, check, commas, finding, ok, todo, warn
from xpubuild.doctor.probes import level_zero
from xpubuild.doctor.probes.level_zero import HIERARCHY, MASK, SELECTOR, Enumeration, enumeration, unmasked
from xpubuild.doctor.probes.machine import bound_gpus, intel_gpus, listed, supported
from xpubuild.doctor.probes.runtimes import sycl_devices, torch_count

_HIERARCHIES = ("FLAT", "COMPOSITE", "COMBINED")
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "FLUX_JOB_ID", "COBALT_JOBID")
_RANKS = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


@check("gpu.hidden", profiles=RUN, needs="level_zero.enumerate", live=True, deadline_s=20)
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
    masked = enumeration(look)
    left = masked.gpus if mask else everything
    unset = todo("unset it, or set it to the devices that programs should use", f"unset {MASK}")
    evidence = {"all": len(everything), MASK: mask, SELECTOR: selector, "after_mask": len(left)}
    if mask and masked.ending.how == "missing":
        return unanswered(masked)
    if mask and (trouble := _trouble(masked)):
        return finding(f"with {MASK}={mask}, but not without it, {trouble}", unset, **evidence)
    if not left:
        return finding(f"{MASK}={mask} hides all {len(everything)} devices", unset, **evidence)
    try:
        seen = level_zero.visible(selector, [len(device.get("tiles", ())) for device in left])
    except level_zero.SelectorError as error:
        fix = todo(
            "correct it; with this value every SYCL program fails with an exception", f"unset {SELECTOR}"
        )
        return finding(f"{SELECTOR}={selector}: {error}", fix, **evidence)
    evidence["visible"] = seen
    if not seen:
        line = f"export {SELECTOR}=level_zero:gpu"
        fix = todo("unset it, or select Level Zero's GPUs", f"unset {SELECTOR}", line)
        return finding(f"{SELECTOR}={selector} hides all {len(left)} devices from PyTorch", fix, **evidence)
    return _some(look, len(everything), seen, evidence)


def _some(look: Look, everything: int, seen: int, evidence: dict[str, object]) -> Outcome:
    names = [name for name in (MASK, SELECTOR) if evidence[name]]
    shown = f"{' and '.join(f'{name}={evidence[name]}' for name in names)}: {seen} of {everything} devices"
    ranks = [value for name in _RANKS if (value := look.environ.get(name, "")).isdigit()]
    if evidence[MASK] and any(int(value) > 1 for value in ranks):
        fix = todo("select the device by its index, xpu:LOCAL_RANK", f"unset {MASK}")
        why = f"a different {MASK} for each rank hides the other ranks' devices from oneCCL, whose"
        return warn(f"{shown}; {why} collectives then hang", fix, **evidence)
    if seen >= everything:
        return ok(f"all {everything} devices are visible", **evidence)
    if any(look.environ.get(name) for name in _JOBS):
        return ok(f"{shown}, in a batch job", **evidence)
    unset = f"unset {' '.join(names)}"
    return warn(shown, todo("unset it to use all devices", unset), **evidence)


def _trouble(found: Enumeration) -> str:
    """Return the error of an enumeration, or an empty text; an empty list of devices is not an error.

    If a mask hides all devices, no driver initialises, and zeInit returns ZE_RESULT_ERROR_UNINITIALIZED.
    """
    if found.ending.how != "ok":
        return found.ending.told("the device enumeration")
    if found.code not in (None, 0, level_zero.UNINITIALIZED):
        return f"{found.ending.stage} returned {level_zero.result_name(int(found.code or 0))}"
    return ""


@check("gpu.hierarchy", severity="warn", profiles=RUN, needs="gpu.supported")
def gpu_hierarchy(look: Look) -> Outcome:
    """Each GPU tile is a separate device (ZE_FLAT_DEVICE_HIERARCHY).

    With FLAT, the default of current drivers, every tile of a multi-tile GPU is a device: a node with
    six Max 1550 has twelve. With COMPOSITE a card is one device, so there are half as many, each with
    twice the memory, and the driver distributes work over the tiles. With COMBINED each tile is a
    device that knows its card. Launchers that expect one mode compute wrong local ranks in another:
    derive ranks from `torch.xpu.device_count()`. Other values are ignored without a message.
    """
    value, gpus = look.environ.get(HIERARCHY, ""), intel_gpus(look)
    tiles = sum(gpu.tiles or 1 for gpu in gpus)
    counts = {"cards": len(gpus), "tiles": tiles, HIERARCHY: value}
    fix = todo("unset it, unless a program requires it", f"unset {HIERARCHY}")
    if value and value.upper() not in _HIERARCHIES:
        detail = f"{HIERARCHY}={value} is not one of {commas(_HIERARCHIES)}; the driver uses its default"
        return finding(detail, fix, **counts)
    if value.upper() == "COMPOSITE" and tiles > len(gpus):
        shown = (
            f"{HIERARCHY}={value}: {len(gpus)} devices, one for each card, instead of {tiles}, one for each"
        )
        return finding(f"{shown} tile", fix, **counts)
    return ok(f"{value or 'FLAT, by default'}: {tiles} devices on {len(gpus)} cards", **counts)


@check(
    "gpu.agreement", profiles=RUN, needs="level_zero.enumerate gpu.render_access gpu.hidden", live=True,
    deadline_s=80,
)  # fmt: skip
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
    pci, bound, sycl = intel_gpus(look), bound_gpus(look), sycl_devices(look)
    closed = sum(1 for gpu in bound if not gpu.accessible)
    devices, seen = unmasked(look).gpus, level_zero.seen_by_sycl(look, enumeration(look).gpus)
    counts: dict[str, int | None] = {
        "PCI": len(pci),
        "DRM": sum(1 for gpu in bound if gpu.render_node),
        "Level Zero": len(devices),
        "OpenCL": sycl.count("opencl") if sycl.program else None,
        "SYCL": sycl.count("level_zero") if sycl.program else None,
    }
    reasons = [
        f"{len(pci) - len(bound)} without a kernel driver" if len(bound) < len(pci) else "",
        f"{closed} with a render node that this user cannot open" if closed else "",
        f"{MASK} or {SELECTOR} hides {len(devices) - seen}" if seen < len(devices) else "",
    ]
    wrong = []
    for tell in (_level_zero, _torch):
        why, lost = tell(look, counts, seen)
        reasons += why
        wrong += lost
    reasons = [reason for reason in reasons if reason]
    evidence = {"counts": counts, "reasons": reasons, "unexplained": wrong}
    because = f" ({'; '.join(reasons)})" if reasons else ""
    shown = commas(f"{name} {count}" for name, count in counts.items() if count is not None)
    if not wrong:
        return ok(f"{shown}{because}", **evidence)
    fix = todo(
        "install compatible releases of loader, driver and kernel driver, and check what the SYCL runtime"
        " loads",
        "SYCL_UR_TRACE=1 sycl-ls",
        "ZE_ENABLE_LOADER_DEBUG_TRACE=1 sycl-ls",
    )
    return finding(f"{'; '.join(wrong)}; {shown}{because}", fix, **evidence)


def _level_zero(look: Look, _counts: dict[str, int | None], _seen: int) -> tuple[list[str], list[str]]:
    """Compare cards by PCI address; return the reasons of differences, and those without a reason."""
    devices = unmasked(look).gpus
    cards = {str(device["pci_address"]) for device in devices}
    openable = [gpu for gpu in bound_gpus(look) if gpu.accessible]
    missing = [gpu for gpu in openable if gpu.pci_address not in cards]
    if "None" in cards:  # an old driver does not report addresses
        missing = openable[len(devices) :]
    unknown = [gpu for gpu in missing if not supported(gpu)]
    lost = [gpu for gpu in missing if supported(gpu)]
    reasons = [f"the driver does not support {listed(unknown)}"] if unknown else []
    if len(devices) > len(cards):
        reasons.append(f"{len(devices)} tiles of {len(cards)} cards are separate devices")
    elif any(len(device.get("tiles", ())) > 1 for device in devices):
        chosen = look.environ.get(HIERARCHY)
        shown = f"{HIERARCHY}={chosen}" if chosen else f"{HIERARCHY} is not set"
        reasons.append(f"{shown}: a card is one device")
    return reasons, [f"Level Zero does not list {listed(lost)}"] if lost else []


def _torch(look: Look, counts: dict[str, int | None], seen: int) -> tuple[list[str], list[str]]:
    torch = torch_count(look)
    name = f"torch {torch.version}"
    if torch.version is None:
        return ["torch cannot be imported, see torch.import"] if not_imported(torch) else [], []
    if torch.ending is not None and torch.ending.how != "ok":
        return [], [ended(torch.ending, name)]
    counts["torch"] = torch.count
    integrated = sum(1 for device in enumeration(look).gpus if device["integrated"])
    if not torch.built:
        return [f"{name} is not built for XPU"], []
    if torch.count == seen - integrated != seen:
        return ["PyTorch ignores integrated GPUs if there is a discrete one"], []
    return [], [f"{name} reports {torch.count} of {seen} devices"] if torch.count < seen else []

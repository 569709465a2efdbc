"""What the device code of a wheel lacks: native code for the GPUs that it was built for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from xpubuild.artifacts.audit_checks import readable
from xpubuild.artifacts.audit_report import AuditedDeviceCode, AuditPolicy, Finding, Findings
from xpubuild.artifacts.device_images import REGISTERS, SPIRV, UNKNOWN, Device, DeviceImage
from xpubuild.artifacts.elf import Elves
from xpubuild.safe_yaml import read_yaml

_TABLE = read_yaml(Path(__file__).with_name("device_targets.yaml").read_text("utf-8"))
_CORES: dict[int, str] = _TABLE["cores"]
#: AOT target -> its releases, and the core of their GPUs.
_TARGETS: dict[str, tuple[tuple[str, ...], int]] = {
    name: (tuple(releases.split()), core)
    for core, targets in _TABLE["families"].items()
    for names, releases in targets.items()
    for name in names.split()
}
_VERSION = re.compile(r"(\d+\.\d+)\.\d+")
_MOST_KERNELS = 2
# Targets of other vendors have images of their own.
_INTEL = "spir"


def has_code_for(devices: Iterable[Device], target: str) -> bool:
    """Whether the GPUs of an image are, or include, those of a target."""
    version = _VERSION.fullmatch(target)
    releases, core = ((version[1],), 0) if version else _TARGETS[target]
    have = tuple(devices)
    return all(
        any(device.release == release if device.config else device.core == core for device in have)
        for release in releases
    )


def describe(device: Device) -> str:
    """Return the shortest target for a GPU and its version, such as ``pvc (12.60.7)``; else its core."""
    if not device.config:
        return _CORES.get(device.core, f"core {device.core:#06x}")
    names = [name for name, (releases, _) in _TARGETS.items() if device.release in releases]
    return f"{min(names, key=len)} ({device.config})" if names else device.config


def summary(images: Sequence[DeviceImage]) -> AuditedDeviceCode:
    """Return the numbers of an object's images."""
    by_gpu: dict[str, set[str]] = {}
    for image in images:
        for device in image.code.devices:
            by_gpu.setdefault(describe(device), set()).update(image.kernels)
    return AuditedDeviceCode(
        images=len(images),
        kernels=len(_kernels(images)),
        spirv=len(_kernels([image for image in images if image.code.kind == SPIRV])),
        native={gpu: len(kernels) for gpu, kernels in sorted(by_gpu.items()) if kernels},
        compressed=sum(1 for image in images if image.code.compressed),
    )


def _kernels(images: Sequence[DeviceImage]) -> frozenset[str]:
    return frozenset().union(*(image.kernels for image in images))


def _shown(kernels: Collection[str]) -> str:
    # Kernels are named by the type of their functor.
    shown = [readable(name).removeprefix("typeinfo name for ") for name in sorted(kernels)[:_MOST_KERNELS]]
    return ", ".join([*shown, *(["..."] if len(kernels) > _MOST_KERNELS else [])])


def device_findings(
    label: str, elves: Elves, images: Mapping[str, Sequence[DeviceImage]], policy: AuditPolicy
) -> Findings:
    """Yield what is missing; nothing where the policy says nothing about device code.

    Each kernel needs native code for each target. Code for other GPUs, which parts of PyTorch always have, is
    no finding.
    """
    if policy.device_targets is None:
        return
    if not any(_kernels(found) for found in images.values()):
        message = f"no object of {label} has a device image with a kernel: its SYCL code was not compiled"
        yield Finding("error", "no-device-code", label, "device image", message)
    targets = [name for name in dict.fromkeys(policy.device_targets) if name and name != "none"]
    for name, found in images.items():
        for image in found:
            if image.kernels and image.code.kind == UNKNOWN and image.target.startswith(_INTEL):
                shown = _shown(image.kernels)
                message = f"{name}: the device image of {shown} is neither SPIR-V nor native code"
                yield Finding("error", "device-code", name, image.target, message)
        if not found and REGISTERS in elves[name].symbols.undefined:
            message = f"{name} calls {REGISTERS}, but no device image was found in it"
            yield Finding("error", "device-code", name, REGISTERS, message)
        for target in targets:
            yield from _lacks(name, found, target)


def _lacks(name: str, images: Sequence[DeviceImage], target: str) -> Findings:
    everything = _kernels(images)
    if not everything:
        return
    # An image shows names and versions of GPUs, not their device ids.
    if target not in _TARGETS and not _VERSION.fullmatch(target):
        message = f"{name}: the native code of AOT target '{target}' is not known"
        yield Finding("warning", "aot-unknown", name, target, message)
        return
    missing = everything - _kernels([it for it in images if has_code_for(it.code.devices, target)])
    if missing:
        # Without SPIR-V the driver cannot compile them: upstream has these kernels for other GPUs alone.
        late = missing & _kernels([image for image in images if image.code.kind == SPIRV])
        native = sorted({describe(device) for image in images for device in image.code.devices})
        part = f"{len(everything) - len(missing)} of {len(everything)} kernels, not for {_shown(missing)}"
        has = f"{name} has native code for {target} for {part}"
        message = f"{has}; it has native code for {', '.join(native) or 'no GPU'}"
        yield Finding("error" if late else "warning", "aot", name, target, message)

"""What the device code of a wheel lacks: native code for the GPUs that it was built for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from xpubuild.artifacts.audit_checks import readable
from xpubuild.artifacts.audit_report import AuditPolicy, DeviceCode, Finding
from xpubuild.artifacts.device_code import SPIRV, UNKNOWN
from xpubuild.artifacts.device_images import REGISTERS, DeviceImage
from xpubuild.artifacts.device_targets import describe, has_code_for, known, named
from xpubuild.artifacts.elf import ElfObject

_MOST_KERNELS = 2
# Targets of other vendors have images of their own.
_INTEL = "spir"


def summary(images: Sequence[DeviceImage]) -> DeviceCode:
    """Return the numbers of an object's images."""
    by_gpu: dict[str, set[str]] = {}
    for image in images:
        for device in image.code.devices:
            by_gpu.setdefault(describe(device), set()).update(image.kernels)
    return DeviceCode(
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
    readables = [
        readable(name).removeprefix("typeinfo name for ") for name in sorted(kernels)[:_MOST_KERNELS]
    ]
    names = ", ".join(readables)
    return names + (", ..." if len(kernels) > _MOST_KERNELS else "")


def device_findings(
    label: str,
    elves: Mapping[str, ElfObject],
    images: Mapping[str, Sequence[DeviceImage]],
    policy: AuditPolicy,
) -> Iterator[Finding]:
    """Yield what is missing; nothing where the policy says nothing about device code.

    Each kernel needs native code for each target. Code for other GPUs, which parts of PyTorch always have, is
    no finding.
    """
    if policy.device_targets is None:
        return
    if not any(_kernels(found) for found in images.values()):
        message = f"no object of {label} has a device image with a kernel: its SYCL code was not compiled"
        yield Finding("error", "no-device-code", label, "device image", message)
    targets = named(policy.device_targets)
    for name, found in images.items():
        for image in found:
            if image.kernels and image.code.kind == UNKNOWN and image.target.startswith(_INTEL):
                message = (
                    f"{name}: the device image of {_shown(image.kernels)} is neither SPIR-V nor native code"
                )
                yield Finding("error", "device-code", name, image.target, message)
        if not found and REGISTERS in elves[name].symbols.undefined:
            message = f"{name} calls {REGISTERS}, but no device image was found in it"
            yield Finding("error", "device-code", name, REGISTERS, message)
        for target in targets:
            yield from _lacks(name, found, target)


def _lacks(name: str, images: Sequence[DeviceImage], target: str) -> Iterator[Finding]:
    everything = _kernels(images)
    if not everything:
        return
    if not known(target):
        message = f"{name}: which native code AOT target '{target}' stands for is not known here"
        yield Finding("warning", "aot-unknown", name, target, message)
        return
    ready = _kernels([image for image in images if has_code_for(image.code.devices, target)])
    missing = everything - ready
    if missing:
        # Without SPIR-V nothing is compiled when it is used: upstream has these kernels for other GPUs alone.
        late = missing & _kernels([image for image in images if image.code.kind == SPIRV])
        native = sorted({describe(device) for image in images for device in image.code.devices})
        message = (
            f"{name} has native code for {target} for {len(everything) - len(missing)} of {len(everything)} "
            f"kernels, not for {_shown(missing)}; it has native code for {', '.join(native) or 'no GPU'}"
        )
        yield Finding("error" if late else "warning", "aot", name, target, message)

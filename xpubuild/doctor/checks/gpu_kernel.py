"""The kernel driver of each GPU: whether it is bound, and if not, why; errors in the kernel log."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xpubuild.doctor.fixes import as_root, distribution, install_command, install_need, need_note
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, commas, finding, ok, skip, todo, warn
from xpubuild.doctor.probes import machine
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import query
from xpubuild.errors import XpuBuildError
from xpubuild.machine.gpus import GpuFacts
from xpubuild.machine.readers import UNKNOWN, entries, exists, read_text
from xpubuild.machine.versions import fits

_MODPROBE_FOLDERS = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")
_RULE = re.compile(r"^\s*(?:blacklist\s+(?P<a>\S+)|install\s+(?P<b>\S+)\s+(?:/usr)?/s?bin/(?:true|false)\b)")
_KERNEL_NUMBER = re.compile(r"\d+\.\d+")
_DG2 = ("DG2 (Alchemist)", "DG2/ATS-M")
#: The oldest kernel whose own driver takes the family without force_probe (drivers/gpu/drm of Linux). A Max
#: has its driver from Intel's DKMS package instead, made for the kernels of the distributions it lists.
_OLDEST_KERNEL = {
    **dict.fromkeys(_DG2, "6.2"),
    **dict.fromkeys(("MTL", "MTL-H"), "6.7"),
    **dict.fromkeys(("LNL (Lunar Lake)", "BMG (Battlemage)"), "6.12"),
}
_READ_LOG = "dmesg | grep -iE 'i915|xe ' | tail -20"


@check("gpu.kernel_driver", profiles=RUN, needs="gpu.supported")
def gpu_kernel_driver(look: Look) -> Outcome:
    """The kernel driver i915 or xe is bound to each GPU.

    Reads from sysfs which driver is bound to each GPU. If there is none, the check searches for the
    reason: a blacklist in modprobe.d, `module_blacklist=` or `modprobe.blacklist=` on the kernel
    command line, `nomodeset`, a `force_probe` that excludes the device, a missing module, or a kernel
    older than the device.

    A GPU that is bound to `vfio-pci` is reserved for a virtual machine. On most kernels, Data Center
    GPU Max needs Intel's own i915 (package `intel-i915-dkms`). The compute runtime does not support an
    Arc A card that was moved to xe with `force_probe`.
    """
    gpus = machine.intel_gpus(look)
    if not gpus:
        return ok("WSL2: Windows drives the GPU") if machine.wsl(look) else skip("no GPU")
    drivers = {gpu.pci_address: gpu.kernel_driver for gpu in gpus}
    usable = machine.usable_gpus(look)
    if unbound := [gpu for gpu in usable if gpu.kernel_driver not in machine.DRM_DRIVERS]:
        detail, fix = _unbound(look, unbound)
        if rest := [gpu for gpu in usable if gpu not in unbound]:
            return warn(f"{detail}; programs can only use {machine.listed(rest)}", fix, drivers=drivers)
        return finding(detail, fix, drivers=drivers)
    if forced := [gpu for gpu in gpus if gpu.family in _DG2 and gpu.kernel_driver == "xe"]:
        detail = f"{machine.listed(forced)}: bound to xe, but Intel's compute runtime requires i915"
        line = "remove xe.force_probe= and i915.force_probe=! from the kernel command line, then reboot"
        return warn(detail, todo(line), drivers=drivers)
    # A driver of the kernel, which Max has at most by force_probe
    # (dgpu-docs.intel.com/driver/kernel-driver-types.html).
    of_kernel = machine.out_of_tree(look, "i915") is False
    if own := [gpu for gpu in gpus if gpu.family == machine.MAX and (gpu.kernel_driver == "xe" or of_kernel)]:
        kernels = f"bound to the kernel's own {own[0].kernel_driver}"
        detail = f"{machine.listed(own)}: {kernels}; for Data Center GPU Max,"
        fix = todo("install Intel's driver module on the host of this container")
        if not machine.contained(look):
            fix = todo(
                "install Intel's driver module, remove force_probe from the kernel command line, then reboot",
                *install_need(look, "kernel-module", "firmware"),
            )
        return warn(f"{detail} Intel supports only its own i915", fix, drivers=drivers)
    return ok(commas(f"{address}: {driver}" for address, driver in drivers.items()), drivers=drivers)


def _unbound(look: Look, unbound: list[GpuFacts]) -> tuple[str, Fix]:
    first = unbound[0]
    state = f"the kernel driver {first.kernel_driver} is bound, which is not a graphics driver"
    if first.kernel_driver in (None, "vfio-pci"):
        state = (
            "the GPU is reserved for a virtual machine (vfio-pci)"
            if first.kernel_driver
            else "no kernel driver is bound"
        )
    reasons = list(_reasons(look, first))
    parts = [f"{state}: {machine.named(first)}", *(reason for reason, _ in reasons)]
    parts += [f"the same for {len(unbound) - 1} more"] if len(unbound) > 1 else []
    return "; ".join(parts), next((fix for _, fix in reasons), _load_it(look, first))


def _reasons(look: Look, gpu: GpuFacts) -> Iterator[tuple[str, Fix]]:
    """Yield the reasons in the files why no driver is bound, the most certain first."""
    if gpu.kernel_driver == "vfio-pci":
        places = ("drivers/vfio-pci/unbind", "drivers_probe")
        lines = (f"sudo sh -c 'echo {gpu.pci_address} > /sys/bus/pci/{place}'" for place in places)
        yield "only that virtual machine can use it", todo("use it there, or return it to the host", *lines)
    for word in (read_text(look.path("/proc/cmdline")) or "").split():
        if _keeps_out(word, gpu.device_id.removeprefix("0x")):
            fix = todo(f"remove '{word}' from the kernel command line, then reboot", *_boot_commands(look))
            yield f"the kernel was started with '{word}'", fix
    for module, place in _blacklisted(look):
        edit = as_root(look, f"sed -i '/{module}/s/^/# /' {place}", f"modprobe {module}")
        fix = todo(f"remove the line about {module} from {place}, then load it", *edit)
        yield f"{module} is blacklisted in {place}", fix
    oldest, match = _OLDEST_KERNEL.get(gpu.family), _KERNEL_NUMBER.match(look.host.os.kernel)
    if oldest and match and fits(match[0], f"<{oldest}") == "yes":
        shown = f"kernel {look.host.os.kernel} is older than {oldest}, the first that supports this GPU"
        yield shown, todo(f"use kernel {oldest} or newer, or install Intel's driver module for this one")


def _keeps_out(word: str, number: str) -> bool:
    """Whether a word of the kernel's command line keeps a driver from the device of this number."""
    name, _, value = word.partition("=")
    if name in ("module_blacklist", "modprobe.blacklist", "rd.driver.blacklist"):
        return bool({*value.split(",")} & {*machine.DRM_DRIVERS})
    if name in ("i915.force_probe", "xe.force_probe"):
        return f"!{number}" in value.lower()
    return word in ("nomodeset", "i915.modeset=0", "xe.modeset=0")


def _boot_commands(look: Look) -> tuple[str, ...]:
    rpm = "grub2-mkconfig -o /boot/grub2/grub.cfg"
    command = {"debian": "update-grub", "rhel": rpm, "suse": rpm}.get(distribution(look))
    return as_root(look, "editor /etc/default/grub", command, "reboot") if command else ()


def _blacklisted(look: Look) -> Iterator[tuple[str, str]]:
    """Yield (module, file) of blacklisted modules; a file takes precedence over later ones with its name."""
    files: dict[str, str] = {}
    for folder in _MODPROBE_FOLDERS:
        for path in entries(look.path(folder)):
            if path.suffix == ".conf":
                files.setdefault(path.name, f"{folder}/{path.name}")
    for place in files.values():
        for line in (read_text(look.path(place)) or "").splitlines():
            match = _RULE.match(line)
            if match and (module := match["a"] or match["b"]) in machine.DRM_DRIVERS:
                yield module, place


def _load_it(look: Look, gpu: GpuFacts) -> Fix:
    if machine.contained(look):
        return todo("load the driver on the host of this container; containers use the host's kernel")
    modules = look.path(f"/lib/modules/{look.host.os.kernel}")
    known = any(next(iter(modules.rglob(f"{name}.ko*")), None) is not None for name in machine.DRM_DRIVERS)
    load = as_root(look, "modprobe i915", _READ_LOG)
    if gpu.family in (machine.MAX, UNKNOWN) or (exists(modules) and not known):
        summary = "install Intel's driver module for this kernel and load it" + need_note(
            look, "kernel-module"
        )
        return todo(summary, *install_need(look, "kernel-module"), *load)
    return todo("load the driver and read the kernel log", *load)


_LOGS = ("/var/log/dmesg", "/var/log/kern.log", "/var/log/messages")
_RING = "dmesg"
_LOG_BYTES, _DMESG_S = 1 << 20, 5.0
_TROUBLE = re.compile(
    r"(?:\bi915\b|\bxe\b).*(?:"
    r"(?:GuC|HuC|GSC|DMC).{0,60}(?<!\bno )(?<!\b0 )(?<!without )"
    r"\b(?:fail(?:ed|s|ure)?|error|missing|not found|outdated)\b|GPU HANG|wedged"
    r"|Failed to load firmware|Device initialization failed|probe.*failed)",
    re.IGNORECASE,
)
_SHOWN_LINES = 5


@check("gpu.firmware", severity="warn", profiles=RUN, needs="gpu.kernel_driver")
def gpu_firmware(look: Look) -> Outcome:
    """The kernel log has no errors of the GPU's firmware.

    Searches for messages of i915 and xe about missing, outdated or failing firmware (GuC, HuC, GSC),
    GPU hangs and wedged devices, in `/var/log/dmesg`, `kern.log`, `messages` and the kernel's log
    buffer, if this user may read them. A GPU whose firmware does not start has a render node, but the
    device is lost at first use.
    """
    if not machine.bound_gpus(look):
        return skip("no GPU with a kernel driver")
    texts = {place: text for place in (*_LOGS, _RING) if (text := _log_of(look, place)) is not None}
    if not texts:
        return skip(f"this user cannot read a kernel log ({commas(_LOGS)}); as root: dmesg")
    lines = [line.strip() for text in texts.values() for line in text.splitlines() if _TROUBLE.search(line)]
    if not lines:
        return ok(f"no firmware errors in {commas(texts)}", logs=list(texts))
    summary = "update the firmware files and reboot; after a hang, power-cycle the machine"
    fix = todo(summary, *_firmware_packages(look))
    return finding(f"the kernel reports: {lines[-1]}", fix, lines=lines[-_SHOWN_LINES:])


def _firmware_packages(look: Look) -> tuple[str, ...]:
    """Return the commands that install the firmware: Intel's own driver module has a separate package."""
    if machine.out_of_tree(look, "i915"):
        return install_need(look, "firmware")
    system = look.host.os
    ubuntu = "ubuntu" in (system.id, *system.id_like)
    # Debian 13 is the first whose firmware of Intel's graphics is a package of its own.
    own = "firmware-misc-nonfree" if fits(system.version, "<13") == "yes" else "firmware-intel-graphics"
    debian = ("linux-firmware" if ubuntu else own,)
    return install_command(look, debian=debian, rhel=("linux-firmware",), suse=("kernel-firmware-i915",))


def _log_of(look: Look, place: str) -> str | None:
    """Return the last part of a log, or of the kernel's message buffer; None where it cannot be read."""
    if place == _RING:
        try:
            answer = (
                query(["dmesg"], env=base_environment(look.environ), deadline_s=_DMESG_S)
                if look.live
                else None
            )
        except XpuBuildError:
            return None
        return answer.stdout or None if answer is not None and answer.ok else None
    path = look.path(place)
    try:
        if not path.is_file():  # a pipe in its place would be waited for
            return None
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _LOG_BYTES))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return None

"""What checks of GPU and driver answer where few machines lead them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support.doctor_frame import assert_answer
from unit.test_doctor_gpu_checks import LOADED, answered, at, device, facts, tree
from unit.test_doctor_gpu_names import SYSTEMS

from xpubuild.doctor.checks import (
    driver,
    gpu,
    gpu_kernel,
    level_zero,
    pcie,
    render_node,
    runtimes,
    visibility,
)
from xpubuild.doctor.kit import Check, Look, Outcome
from xpubuild.doctor.probes.children import Ending
from xpubuild.doctor.probes.level_zero import Enumeration, enumeration, unmasked
from xpubuild.doctor.probes.runtimes import (
    OpenclGpus,
    SyclDevices,
    TorchCount,
    UnifiedRuntime,
    opencl_gpus,
    sycl_devices,
    torch_count,
    unified_runtime,
)
from xpubuild.machine.drivers import DriverFacts
from xpubuild.machine.gpus import GpuFacts
from xpubuild.machine.host_report import host_report
from xpubuild.machine.readers import LIVE_ROOT
from xpubuild.machine.system import OsFacts

GIB = 1 << 30
MAX = GpuFacts(
    "0000:29:00.0", "0x8086", "0x0bd5", "Intel Data Center GPU Max 1550", "PVC (Xe-HPC)", "i915",
    "/dev/dri/renderD128", accessible=True, numa_node=0, tiles=2,
)  # fmt: skip
NEW = replace(MAX, pci_address="0000:3a:00.0", device_id="0x9abc", name="unknown", family="unknown")
UNBOUND = replace(MAX, pci_address="0000:9a:00.0", kernel_driver=None, render_node=None, accessible=None)


@dataclass(frozen=True)
class Seldom:
    """A check, how it answers, and what it is asked about.

    ``files`` and ``links`` are those of a recorded tree. Without any it is the running machine, about which
    ``facts`` are known and ``answers`` come from probes.
    """

    check: Check
    status: str
    files: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[Callable[[Look], Any], Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    told: str = ""
    types: str = ""


def bound(name: str, address: str = "0000:29:00.0") -> dict[str, str]:
    """Return the link of a device to its driver."""
    return {f"sys/bus/pci/devices/{address}/driver": f"../../drivers/{name}"}


def os_release(system: str) -> dict[str, str]:
    return {"etc/os-release": SYSTEMS[system]}


def listing(*devices: dict[str, Any], **loaded: Any) -> Enumeration:
    records = ({**LOADED, **loaded}, {"init": 0}, {"driver": {"api": "1.3", "devices": list(devices)}})
    return answered(*records, {"done": True})


GPU = {"type": 1, "name": "Max", "pci_address": "0000:29:00.0", "tiles": [], "integrated": False}
RPM = (DriverFacts("rolling", "intel-opencl", "25.35.35096.9", "rpm"),)
NOT_IMPORTED = TorchCount(ending=Ending("status", ({"stage": "import torch"},), status=1))
TWO_LOADERS = facts(libze1=("unknown", "1.21.9.0"), level_zero=("unknown", "1.21.9.0"))
ONE_CARD = {**GPU, "tiles": [{}, {}], "memory_bytes": 64 * GIB}
SMALL = {**GPU, "name": "Arc", "memory_bytes": 16 * GIB, "max_allocation_bytes": 4 * GIB}
BUILT_IN = {**GPU, "name": "Arc of the processor", "pci_address": "0000:00:02.0", "integrated": True}
NO_LIBRARY: dict[str, Any] = {"libraries": [], "version": "", "lacks": []}


def layers(seen: Enumeration, torch: TorchCount | None = None) -> dict[Callable[..., Any], Any]:
    """Return what the layers above the kernel list, OpenCL nothing."""
    return {
        enumeration: seen,
        unmasked: seen,
        opencl_gpus: OpenclGpus(Ending("ok")),
        sycl_devices: SyclDevices(None),
        torch_count: torch or TorchCount(),
    }


def of_torch(**changes: Any) -> TorchCount:
    usual = {"version": "2.8.0+xpu", "built": True, "count": 1, "ending": Ending("ok")}
    return TorchCount(**{**usual, **changes})


def runtime(**changes: Any) -> dict[Callable[..., Any], Any]:
    usual: dict[str, Any] = {"loader": Path("/opt/env/lib/libur_loader.so.0"), "ending": Ending("ok")}
    return {unified_runtime: UnifiedRuntime(**{**usual, **changes})}


def agreement(status: str, *gpus: GpuFacts, **changes: Any) -> Seldom:
    return Seldom(visibility.gpu_agreement, status, facts={"gpus": gpus}, **changes)


SELDOM = {
    "two loaders of Rocky": Seldom(
        driver.driver_loader_source,
        "warn",
        os_release("rocky"),
        facts={"drivers": TWO_LOADERS},
        told="the loader is installed under 2 names: libze1 1.21.9.0, level-zero",
        types="dnf remove -y level-zero",
    ),
    "two loaders of SLES": Seldom(
        driver.driver_loader_source,
        "warn",
        os_release("sles"),
        facts={"drivers": TWO_LOADERS},
        told="the loader is installed under 2 names: libze1 1.21.9.0, level-zero",
        types="zypper remove -y level-zero",
    ),
    "one RPM repository": Seldom(
        driver.driver_loader_source,
        "ok",
        os_release("rocky"),
        facts={
            "drivers": (replace(RPM[0], package="level-zero"), replace(RPM[0], package="intel-level-zero"))
        },
        told="level-zero, intel-level-zero: from an RPM repository",
    ),
    "two families of RPMs": Seldom(
        driver.driver_mixed,
        "fail",
        os_release("rocky"),
        facts={"drivers": (*RPM, *facts(libze_intel_gpu1=("lts-2350", "1.3.27642")))},
        told="intel-opencl 25.35.35096.9 (rolling), libze-intel-gpu1 1.3.27642 (LTS",
        types="dnf install -y intel-opencl libze-intel-gpu1",
    ),
    "no GPU that needs a driver": Seldom(
        driver.driver_family, "skip", told="no Intel GPU that needs a driver"
    ),
    "no GPU that needs headers": Seldom(driver.driver_headers, "skip", told="no Intel GPU to compile for"),
    "RPMs of an image": Seldom(
        driver.driver_family,
        "skip",
        {"var/lib/rpm/rpmdb.sqlite": ""},
        told="the rpm database /var/lib/rpm was not read, because rpm would have to",
    ),
    "a new card beside a Max": Seldom(
        gpu.gpu_supported,
        "ok",
        {**device(), **device("0000:3a:00.0", "0x9abc")},
        told="Intel Data Center GPU Max 1550 at 0000:29:00.0; also Intel device",
    ),
    "a misspelled switch": Seldom(
        gpu.gpu_single_allocation,
        "warn",
        answers={unmasked: listing(SMALL)},
        environ={"UR_L0_USE_RELAXED_ALLOCATION_LIMITS": "1"},
        told="Arc: 4.0 of 16 GiB in one allocation",
        types="export UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1",
    ),
    "a Max for a virtual machine": Seldom(
        gpu_kernel.gpu_kernel_driver,
        "fail",
        device(),
        bound("vfio-pci"),
        told="the GPU is reserved for a virtual machine (vfio-pci): Intel Data",
        types="sh -c 'echo 0000:29:00.0 > /sys/bus/pci/drivers/vfio-pci/unbind'",
    ),
    "a Max under another driver": Seldom(
        gpu_kernel.gpu_kernel_driver,
        "fail",
        device(),
        bound("pciback"),
        told="the kernel driver pciback is bound, which is not a graphics driver",
        types="# install with your package manager: intel-i915-dkms",
    ),
    "a command line of Rocky": Seldom(
        gpu_kernel.gpu_kernel_driver,
        "fail",
        {**device(), **os_release("rocky"), "proc/cmdline": "ro nomodeset"},
        told="no kernel driver is bound: Intel Data Center GPU Max 1550 at",
        types="editor /etc/default/grub",
    ),
    "a command line of another system": Seldom(
        gpu_kernel.gpu_kernel_driver,
        "fail",
        {**device(), "proc/cmdline": "ro nomodeset"},
        told="no kernel driver is bound: Intel Data Center GPU Max 1550 at",
    ),
    "no firmware to read about": Seldom(
        gpu_kernel.gpu_firmware, "skip", device(), told="no GPU with a kernel driver"
    ),
    "a virtual function": Seldom(
        gpu.gpu_memory_tiles,
        "warn",
        {**device(), "sys/bus/pci/devices/0000:28:00.0/vendor": "0x8086"},
        {"sys/bus/pci/devices/0000:29:00.0/physfn": "../0000:28:00.0"},
        answers={unmasked: listing({**GPU, "memory_bytes": 32 * GIB})},
        told="Intel Data Center GPU Max 1550 at 0000:29:00.0 has 1 of 2 tiles, 32",
        types="lspci -vv -s 0000:29:00.0 | grep -i 'SR-IOV",
    ),
    "a crash with last words": Seldom(
        level_zero.level_zero_enumerate,
        "fail",
        answers={
            unmasked: Enumeration(
                Ending("crash", ({"stage": "zeInit"},), words="Abort\nterminate called", status=-6)
            )
        },
        told="the device enumeration was killed by SIGABRT in zeInit; its last",
        types="# install with your package manager: libze-intel-gpu1 libze1",
    ),
    "an error of a driver": Seldom(
        level_zero.level_zero_enumerate,
        "fail",
        answers={
            unmasked: answered(
                {"stage": "zeInit", "libraries": ["/usr/lib/libze_intel_gpu.so.1.6"], "init": 0x70000001}
            )
        },
        told="zeInit: ZE_RESULT_ERROR_DEVICE_LOST (0x70000001); the driver is",
        types="# install with your package manager: libze-intel-gpu1 libze1",
    ),
    "a loader that crashes": Seldom(
        level_zero.level_zero_loader,
        "fail",
        answers={enumeration: answered({"stage": "dlopen"}, how="crash", status=-11)},
        told="loading the Level Zero loader was killed by SIGSEGV in dlopen",
        types="# install with your package manager: libze1 (Debian); level-zero",
    ),
    "a loader before another": Seldom(
        level_zero.level_zero_loader,
        "ok",
        answers={enumeration: listing()},
        environ={"LD_LIBRARY_PATH": "{tmp}/module"},
        told="/x/libze_loader.so.1.8.0, version 1.8.0; it is found before",
    ),
    "a loader without a version": Seldom(
        level_zero.level_zero_versions,
        "skip",
        answers={unmasked: answered(NO_LIBRARY, {"init": 0})},
        told="the loader does not state its version",
    ),
    "no window of memory": Seldom(
        pcie.gpu_bar, "skip", device(), told="no discrete GPU with a known memory window (BAR"
    ),
    "a node that udev did not make": Seldom(
        render_node.gpu_render_node,
        "fail",
        facts={"gpus": (replace(MAX, render_node="/dev/dri/renderD99999"),), "os": OsFacts(container="none")},
        told="the kernel has /dev/dri/renderD99999, but it is missing in /dev/dri",
        types="udevadm trigger --subsystem-match=drm",
    ),
    "a node of a tree": Seldom(
        render_node.gpu_render_node,
        "skip",
        {**device(), "sys/bus/pci/devices/0000:29:00.0/drm/renderD128/dev": "226:128"},
        bound("xe"),
        told="device nodes are created when a system starts; a recorded file tree",
    ),
    "no GPU with a node": Seldom(
        render_node.gpu_render_node, "skip", device(), told="no GPU with a kernel driver"
    ),
    "an adapter that does not load": Seldom(
        runtimes.sycl_adapters,
        "fail",
        answers=runtime(failed=(("libur_adapter_level_zero.so.0", "libumf.so.1: no such file"),)),
        told="not loaded: libur_adapter_level_zero.so.0: libumf.so.1: no such file",
        types="UR_LOG_LOADER='level:info;output:stderr' python3 -c 'import ctypes",
    ),
    "a loader of adapters that crashes": Seldom(
        runtimes.sycl_adapters,
        "fail",
        answers=runtime(ending=Ending("crash", status=-11)),
        told="/opt/env/lib/libur_loader.so.0: the runtime's loader was killed by",
        types="UR_LOG_LOADER='level:info;output:stderr' python3 -c 'import ctypes",
    ),
    "a loader of adapters that does not load": Seldom(
        runtimes.sycl_adapters,
        "fail",
        answers=runtime(ending=Ending("status", ({"load_error": "libstdc++.so.6: too old"},), status=1)),
        told="/opt/env/lib/libur_loader.so.0: libstdc++.so.6: too old",
        types="UR_LOG_LOADER='level:info;output:stderr' python3 -c 'import ctypes",
    ),
    "adapters without a device": Seldom(
        runtimes.sycl_adapters, "ok", answers=runtime(), told="no adapter has a device here"
    ),
    "two devices of an adapter": Seldom(
        runtimes.sycl_adapters,
        "ok",
        answers=runtime(adapters=({"adapter": "level_zero", "platforms": [{"devices": 2}]},)),
        told="level_zero: 2 devices",
    ),
    "a card without a driver": agreement(
        "ok",
        MAX,
        UNBOUND,
        answers=layers(listing(ONE_CARD)),
        told="PCI 2, DRM 1, Level Zero 1, OpenCL 0 (1 without a kernel driver",
    ),
    "a card that cannot be opened": agreement(
        "ok",
        MAX,
        replace(MAX, pci_address="0000:3b:00.0", accessible=False),
        answers=layers(listing(ONE_CARD)),
        told="PCI 2, DRM 2, Level Zero 1, OpenCL 0 (1 with a render node that this",
    ),
    "a card that the driver does not know": agreement(
        "ok",
        MAX,
        NEW,
        answers=layers(listing(ONE_CARD)),
        told="PCI 2, DRM 2, Level Zero 1, OpenCL 0 (the driver does not support",
    ),
    "a card that Level Zero lost": agreement(
        "fail",
        MAX,
        replace(MAX, pci_address="0000:3b:00.0"),
        answers=layers(listing(ONE_CARD)),
        told="Level Zero does not list Intel Data Center GPU Max 1550 at",
        types="SYCL_UR_TRACE=1 sycl-ls",
    ),
    "a driver that tells no addresses": agreement(
        "fail",
        MAX,
        replace(MAX, pci_address="0000:3b:00.0"),
        answers=layers(listing({**ONE_CARD, "pci_address": None})),
        told="Level Zero does not list Intel Data Center GPU Max 1550 at",
        types="SYCL_UR_TRACE=1 sycl-ls",
    ),
    "tiles that are one device": agreement(
        "ok",
        MAX,
        answers=layers(listing(ONE_CARD), of_torch()),
        environ={"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"},
        told="PCI 1, DRM 1, Level Zero 1, OpenCL 0, torch 1",
    ),
    "tiles that are two devices": agreement(
        "ok",
        MAX,
        answers=layers(listing(GPU, GPU), of_torch(count=2)),
        told="PCI 1, DRM 1, Level Zero 2, OpenCL 0, torch 2 (2 tiles of 1 cards are",
    ),
    "a torch that is not imported": agreement(
        "ok",
        MAX,
        answers=layers(listing(GPU), NOT_IMPORTED),
        told="PCI 1, DRM 1, Level Zero 1, OpenCL 0 (OpenCL has no GPU, but PyTorch",
    ),
    "a torch without XPU": agreement(
        "ok",
        MAX,
        answers=layers(listing(GPU), of_torch(version="2.8.0+cpu", built=False, count=0)),
        told="PCI 1, DRM 1, Level Zero 1, OpenCL 0, torch 0 (OpenCL has no GPU, but",
    ),
    "a torch that lost a device": agreement(
        "fail",
        MAX,
        answers=layers(listing(GPU, GPU), of_torch(count=1)),
        told="torch 2.8.0+xpu reports 1 of 2 devices; PCI 1, DRM 1, Level Zero 2",
        types="SYCL_UR_TRACE=1 sycl-ls",
    ),
    "a torch that crashes": agreement(
        "fail",
        MAX,
        answers=layers(
            listing(GPU), of_torch(ending=Ending("crash", ({"stage": "torch.xpu.device_count"},), status=-6))
        ),
        told="torch 2.8.0+xpu was killed by SIGABRT in torch.xpu.device_count; PCI",
        types="SYCL_UR_TRACE=1 sycl-ls",
    ),
    "a GPU of the processor that torch ignores": agreement(
        "ok",
        MAX,
        replace(MAX, pci_address="0000:00:02.0", device_id="0x7d55", family="MTL", tiles=None),
        answers=layers(listing(GPU, BUILT_IN), of_torch()),
        told="PCI 2, DRM 2, Level Zero 2, OpenCL 0, torch 1 (OpenCL has no GPU, but",
    ),
}


def asked(seldom: Seldom, folder: Path) -> Look:
    """Return the machine, or the tree with these files."""
    if seldom.files:
        root = tree(folder / "tree", seldom.files)
        for name, target in seldom.links.items():
            place = root / name
            (place.parent / target).mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)
        return at(root, seldom.environ, **seldom.facts)
    tree(folder, {"module/libze_loader.so.1": ""})
    environ = {name: value.replace("{tmp}", str(folder)) for name, value in seldom.environ.items()}
    host = replace(host_report(folder / "nothing"), **seldom.facts)
    return Look(host, environ, LIVE_ROOT)


def answer_of(seldom: Seldom, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """Return what a check answers on such a machine, whose own libraries do not count."""
    monkeypatch.setattr(level_zero, "FOLDERS", ())
    context = asked(seldom, folder)
    if seldom.answers:
        monkeypatch.setattr(Look, "probe", lambda _, ask: seldom.answers[ask])
    return seldom.check(context)


@pytest.mark.parametrize("name", SELDOM)
def test_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    row = SELDOM[name]
    assert_answer(answer_of(row, tmp_path, monkeypatch), row.status, row.told, row.types)


def test_a_machine_without_a_bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "has_pci", lambda _context: False)
    context = Look(host_report(tmp_path), {}, LIVE_ROOT)
    assert gpu.gpu_present(context).status == "fail"

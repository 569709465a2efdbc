"""More of what checks of GPU and driver answer on few machines."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.doctor_shows import shows
from unit.test_doctor_gpu_checks import answered, at, device, tree
from unit.test_doctor_gpu_seldom import (
    BUILT_IN,
    GIB,
    GPU,
    MAX,
    Seldom,
    agreement,
    bound,
    layers,
    listing,
    of_torch,
    status_of,
)

from xpubuild.doctor.checks import gpu, gpu_kernel, level_zero, pcie, render_node, runtimes
from xpubuild.doctor.probes.children import Ending
from xpubuild.doctor.probes.level_zero import enumeration
from xpubuild.doctor.probes.runtimes import SyclDevices, sycl_devices

TWO = {**device(), **device("0000:3a:00.0")}
NONSENSE = {"ONEAPI_DEVICE_SELECTOR": "nonsense"}
SYCL_LS = SyclDevices(
    "/opt/sycl-ls", Ending("ok"), ("[level_zero:gpu][level_zero:0] Max", "[opencl:gpu] Max")
)
KNOWN = {**GPU, "memory_bytes": 32 * GIB}
WINDOWS = "0x0 0xffff\nzzz\n0x10000000 0x1fffffff 0x14220c\n0x0 0x0 0x2000\n0x0 0xffffffff 0x0\n"

RARE = {
    "one of two GPUs without a driver": Seldom(gpu_kernel.gpu_kernel_driver, "warn", TWO, bound("i915")),
    "one of two GPUs without a node": Seldom(
        render_node.gpu_render_node,
        "warn",
        facts={"gpus": (replace(MAX, render_node="/dev/null"), replace(MAX, render_node=None))},
    ),
    "a GPU without a node": Seldom(
        render_node.gpu_render_node, "fail", facts={"gpus": (replace(MAX, render_node=None),)}
    ),
    "no node to open": Seldom(render_node.gpu_render_access, "skip"),
    "a device that the kernel does not know": Seldom(
        gpu.gpu_memory_tiles,
        "ok",
        facts={"gpus": ()},
        answers={level_zero.unmasked: listing(KNOWN, {**GPU, "memory_bytes": None})},
    ),
    "an image without a loader": Seldom(level_zero.level_zero_loader, "fail", device()),
    "an image with a loader": Seldom(
        level_zero.level_zero_loader, "ok", {**device(), "opt/x/libze_loader.so.1": ""},
        environ={"LD_LIBRARY_PATH": "/opt/x"},
    ),
    "a window of memory": Seldom(pcie.gpu_bar, "warn", device(resource=WINDOWS), bound("i915")),
    "a selector that is none": Seldom(
        runtimes.sycl_see,
        "fail",
        answers={sycl_devices: SYCL_LS, enumeration: listing(GPU, BUILT_IN)},
        environ=NONSENSE,
    ),
    "a selector that is none, and all devices": Seldom(
        runtimes.sycl_see, "ok", answers={sycl_devices: SYCL_LS, enumeration: listing(GPU)}, environ=NONSENSE
    ),
    "a selector that is none, and torch": agreement(
        "ok", MAX, answers=layers(listing(GPU), of_torch()), environ=NONSENSE
    ),
    "an enumeration that was never asked": Seldom(
        level_zero.level_zero_versions, "skip", answers={level_zero.unmasked: answered({"stage": "start"})}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RARE)
def test_rare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert status_of(RARE[name], tmp_path, monkeypatch) == RARE[name].status


@shows("warn", "gpu.firmware")
def test_a_buffer_of_the_kernel_whose_end_is_reached(tmp_path: Path) -> None:
    root = tree(tmp_path, {**device(), "sys/bus/pci/drivers/xe/bind": "", "var/log/dmesg": "nothing\n"})
    (root / "sys/bus/pci/devices/0000:29:00.0/driver").symlink_to("../../drivers/xe")
    (root / "dev").mkdir()
    os.mkfifo(root / "dev/kmsg")
    os.mkfifo(root / "var/log/messages")
    writer = os.open(root / "dev/kmsg", os.O_RDWR)
    try:
        os.write(writer, b"3,1,1,-;i915 0000:29:00.0: [drm] GPU HANG: ecode 12\n")
        assert gpu_kernel.gpu_firmware(at(root)).status == "warn"
    finally:
        os.close(writer)

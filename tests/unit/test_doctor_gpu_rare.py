"""More of what checks of GPU and driver answer on few machines."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.doctor_frame import assert_answer
from support.doctor_shows import shows
from unit.test_doctor_gpu_checks import answered, at, device, tree
from unit.test_doctor_gpu_seldom import (
    BUILT_IN,
    GIB,
    GPU,
    MAX,
    Seldom,
    agreement,
    answer_of,
    bound,
    layers,
    listing,
    of_torch,
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
    "one of two GPUs without a driver": Seldom(
        gpu_kernel.gpu_kernel_driver,
        "warn",
        TWO,
        bound("i915"),
        told="no kernel driver is bound: Intel Data Center GPU Max 1550 at",
        types="# install with your package manager: intel-i915-dkms",
    ),
    "one of two GPUs without a node": Seldom(
        render_node.gpu_render_node,
        "warn",
        facts={"gpus": (replace(MAX, render_node="/dev/null"), replace(MAX, render_node=None))},
        told="i915 is bound, but created no render node: Intel Data Center GPU Max",
        types="dmesg | grep -iE 'i915|0000:29:00.0' | tail -30",
    ),
    "a GPU without a node": Seldom(
        render_node.gpu_render_node,
        "fail",
        facts={"gpus": (replace(MAX, render_node=None),)},
        told="i915 is bound, but created no render node: Intel Data Center GPU Max",
        types="dmesg | grep -iE 'i915|0000:29:00.0' | tail -30",
    ),
    "no node to open": Seldom(render_node.gpu_render_access, "skip", told="no render node"),
    "a device that the kernel does not know": Seldom(
        gpu.gpu_memory_tiles,
        "ok",
        facts={"gpus": ()},
        answers={level_zero.unmasked: listing(KNOWN, {**GPU, "memory_bytes": None})},
        told="0000:29:00.0: 2 tiles, 32 GiB",
    ),
    "an image without a loader": Seldom(
        level_zero.level_zero_loader,
        "fail",
        device(),
        told="no libze_loader.so.1 in the library folders",
        types="# install with your package manager: libze1 (Debian); level-zero",
    ),
    "an image with a loader": Seldom(
        level_zero.level_zero_loader,
        "ok",
        {**device(), "opt/x/libze_loader.so.1": ""},
        environ={"LD_LIBRARY_PATH": "/opt/x"},
        told="/opt/x/libze_loader.so.1",
    ),
    "a window of memory": Seldom(
        pcie.gpu_bar,
        "warn",
        device(resource=WINDOWS),
        bound("i915"),
        told="Intel Data Center GPU Max 1550 at 0000:29:00.0: a memory window (BAR",
        types="lspci -vv -s 0000:29:00.0 | grep -i region",
    ),
    "a selector that is none": Seldom(
        runtimes.sycl_see,
        "fail",
        answers={sycl_devices: SYCL_LS, enumeration: listing(GPU, BUILT_IN)},
        environ=NONSENSE,
        told="sycl-ls lists 1 of 2 Level Zero GPUs; it lists 1 under OpenCL, which",
        types="SYCL_UR_TRACE=1 sycl-ls --verbose",
    ),
    "a selector that is none, and all devices": Seldom(
        runtimes.sycl_see,
        "ok",
        answers={sycl_devices: SYCL_LS, enumeration: listing(GPU)},
        environ=NONSENSE,
        told="1 GPUs under Level Zero",
    ),
    "a selector that is none, and torch": agreement(
        "ok",
        MAX,
        answers=layers(listing(GPU), of_torch()),
        environ=NONSENSE,
        told="PCI 1, DRM 1, Level Zero 1, OpenCL 0, torch 1 (OpenCL has no GPU, but",
    ),
    "an enumeration that was never asked": Seldom(
        level_zero.level_zero_versions,
        "skip",
        answers={level_zero.unmasked: answered({"stage": "start"})},
        told="the loader does not state its version",
    ),
}


@pytest.mark.parametrize("name", RARE)
def test_rare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    row = RARE[name]
    assert_answer(answer_of(row, tmp_path, monkeypatch), row.status, row.told, row.types)


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

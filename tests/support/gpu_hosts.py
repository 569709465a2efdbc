"""Hosts that differ in their GPU, its driver and what hides it, with the checks that must notice."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from support.hosts import DEVELOPMENT, GROUPS, LTS, LTS2, OPENCL, Content, Gpu, Host, LevelZero, Node, User

GIB = 1 << 30
MAX_1550 = Gpu()
ARC = Gpu(
    address="0000:03:00.0",
    device="0x56a0",
    name="Intel(R) Arc(TM) A770 Graphics",
    pci_class="0x030000",
    number=129,
    tiles=1,
    tile_bytes=16 * GIB,
    # The function itself says 2.5 GT/s; the link that counts is that of the card's own switch.
    link=("2.5 GT/s PCIe", "1", "2.5 GT/s PCIe", "1"),
    bridges=(
        ("2.5 GT/s PCIe", "1", "2.5 GT/s PCIe", "1"),
        ("16.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16"),
        ("16.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"),
    ),
)
OLD_GRAPHICS = Gpu(
    address="0000:00:02.0", device="0x3e92", pci_class="0x030000", tiles=1, integrated=True, bridges=()
)
ADA = User(uid=1000, gid=1000, groups=(1000,))
LISTS_OPENCL = (
    "#!/bin/sh\necho '[opencl:gpu][opencl:0] Intel(R) OpenCL Graphics, Intel(R) Data Center GPU Max 1550'\n"
)
LISTS_BOTH = (
    "#!/bin/sh\nfor n in 0 1; do\n"
    'echo "[level_zero:gpu][level_zero:$n] Intel(R) oneAPI Unified Runtime over Level-Zero, Max 1550"\ndone\n'
)
ONLY_LTS = (
    "schema: 1\nname: only-lts\ntitle: for machines with the first LTS\nextends: '2.4'\n"
    "needs:\n  drivers: [lts-2350]\n"
)
#: The same as second GPU of a machine with a card.
OLD_BESIDE = dataclasses.replace(OLD_GRAPHICS, number=129)
GREG = User(uid=1000, gid=1000, groups=(1000, 993))
DOCKER: dict[str, Content] = {"/run/systemd/container": "docker\n"}


def at(gpu: Gpu, address: str, number: int) -> Gpu:
    return dataclasses.replace(gpu, address=address, number=number)


def like(gpu: Gpu, **changes: object) -> tuple[Gpu, ...]:
    return (dataclasses.replace(gpu, **changes),)  # type: ignore[arg-type]


HEALTHY = Host("Max 1550, healthy, 2 tiles", pci=(MAX_1550,), packages=LTS, files={**DEVELOPMENT, **OPENCL})
BARE = Host(
    "no GPU at all", frozenset({"gpu.present"}), level_zero=LevelZero(driver=False), files=DEVELOPMENT
)


def _healthy(name: str, *expect: str, warns: tuple[str, ...] = (), **changes: object) -> Host:
    return HEALTHY.but(name=name, expect=expect, warns=warns, **changes)


WORKING = (
    HEALTHY,
    _healthy(
        "Arc B580 under xe",
        pci=like(ARC, device="0xe20b", name="Intel(R) Arc(TM) B580", driver="xe", tile_bytes=12 * GIB),
        kernel="6.14.0-27-generic",
    ),
    _healthy("a member of the group render", user=User(1000, 1000, (1000, 993))),
    _healthy("a driver that no package database knows", packages={}),
    _healthy("sycl-ls agrees", files={"/usr/bin/sycl-ls": LISTS_BOTH}),
    _healthy("a Slurm job with one of two devices", environ={"ZE_AFFINITY_MASK": "0", "SLURM_JOB_ID": "7"}),
    _healthy("LTS2 2523", packages=LTS2),
)
MISSING = (
    BARE,
    BARE.but(name="graphics from before XPU", expect={"gpu.supported"}, pci=(OLD_GRAPHICS,)),
    _healthy("no kernel driver", "gpu.kernel_driver", pci=like(MAX_1550, driver=None)),
    _healthy(
        "i915 blacklisted",
        "gpu.kernel_driver",
        pci=like(MAX_1550, driver=None),
        files={"/etc/modprobe.d/no-graphics.conf": "# no screen here\nblacklist i915\n"},
    ),
    _healthy(
        "no kernel driver for the card, one for the old graphics beside it",
        "gpu.kernel_driver",
        pci=(*like(MAX_1550, driver=None), OLD_BESIDE),
        level_zero=LevelZero(sees=()),
    ),
    _healthy(
        "Max driven by xe",
        warns=("gpu.kernel_driver",),
        pci=like(MAX_1550, driver="xe"),
        kernel="6.8.0-45-generic",
    ),
    _healthy("i915 made no render node", "gpu.render_node", pci=like(MAX_1550, number=None)),
    _healthy(
        "a container without the device", "gpu.render_node", pci=like(MAX_1550, node=None), files=DOCKER
    ),
)
CLOSED = (
    _healthy("no permission for the render node", "gpu.render_access", user=ADA),
    _healthy(
        "a member since after the login",
        "gpu.render_access",
        user=ADA,
        files={"/etc/group": GROUPS.replace("render:x:993:", "render:x:993:ada")},
    ),
    _healthy(
        "a container with the wrong gid",
        "gpu.render_access",
        user=User(1000, 1000, (1000, 993)),
        pci=like(MAX_1550, node=Node(gid=109)),
        files=DOCKER,
    ),
    _healthy(
        "rootless Podman dropped the groups",
        "gpu.render_access",
        user=ADA,
        pci=like(MAX_1550, node=Node(uid=65534, gid=65534)),
        files={"/run/systemd/container": "podman\n"},
    ),
    _healthy(
        "Max closed, the old graphics beside it open",
        "gpu.render_access",
        user=GREG,
        pci=(*like(MAX_1550, node=Node(mode=0o600)), OLD_BESIDE),
        level_zero=LevelZero(sees=()),
    ),
    _healthy(
        "Max closed, Arc open",
        warns=("gpu.supported", "gpu.render_access"),
        user=GREG,
        pci=(*like(MAX_1550, node=Node(mode=0o600)), ARC),
        kernel="6.8.0-45-generic",
        level_zero=LevelZero(sees=(ARC.address,)),
    ),
)
STACK = (
    _healthy("loader missing", "level_zero.loader", level_zero=LevelZero(loader=False)),
    _healthy(
        "loader older than the driver", warns=("level_zero.versions",), level_zero=LevelZero(api="1.99")
    ),
    _healthy("driver crashes in zeInit", "level_zero.enumerate", level_zero=LevelZero(act="crash init")),
    _healthy(
        "driver hangs",
        "level_zero.enumerate",
        level_zero=LevelZero(act="hang init"),
        environ={"XPUBUILD_DOCTOR_DRIVER_SECONDS": "0.4"},
    ),
    _healthy("Level Zero without a driver", "driver.family", level_zero=LevelZero(driver=False), packages={}),
    _healthy(
        "the loader was told to take another driver",
        "level_zero.enumerate",
        environ={"ZE_ENABLE_ALT_DRIVERS": "libze_other.so.1"},
    ),
    _healthy(
        "one of two cards is not listed",
        "gpu.agreement",
        pci=(MAX_1550, at(MAX_1550, "0000:3a:00.0", 129)),
        level_zero=LevelZero(sees=("0000:29:00.0",)),
    ),
    _healthy(
        "driver families mixed",
        "driver.mixed",
        packages={**LTS, "libze-intel-gpu1": "25.35.35096.9-0"},
        warns=("driver.loader_source",),
    ),
    _healthy(
        "loader of the distribution, driver of Intel",
        warns=("driver.loader_source",),
        packages={**LTS2, "libze1": "1.16.1-1"},
    ),
    _healthy(
        "LTS2 where the recipe wants LTS",
        "driver.recipe",
        packages=LTS2,
        files={"/opt/site/only-lts.yaml": ONLY_LTS},
        # Neither oneAPI nor room for a build is here: what runs is the question.
        arguments=("--recipe", "/opt/site/only-lts.yaml", "--profile", "run"),
    ),
    _healthy("sycl-ls lists OpenCL alone", "sycl.see", files={"/usr/bin/sycl-ls": LISTS_OPENCL}),
    _healthy("sycl-ls crashes", "sycl.see", files={"/usr/bin/sycl-ls": "#!/bin/sh\nkill -SEGV $$\n"}),
)
TORCH = "__version__ = '2.8.0+xpu'\nfrom torch import xpu\n"
XPU = "_is_compiled = lambda: {built}\ndevice_count = lambda: {count}\n"


def torch(built: bool, count: int) -> dict[str, Content]:
    text = XPU.format(built=built, count=count)
    return {"/opt/site/torch/__init__.py": TORCH, "/opt/site/torch/xpu.py": text}


_WITH_TORCH: dict[str, Any] = {
    # The stand-in answers questions and has no libraries to be looked at.
    "arguments": ("--python", sys.executable, "--skip", "torch.[!i]*"),
    "environ": {"PYTHONPATH": "/opt/site"},
}


def _broken(name: str, text: str, *expect: str, **environ: str) -> Host:
    files: dict[str, Content] = {"/opt/site/torch/__init__.py": text}
    changes = {**_WITH_TORCH, "environ": {**_WITH_TORCH["environ"], **environ}}
    return _healthy(name, *expect, files=files, **changes)


LAYERS = (
    _broken(
        "torch crashes when it is imported",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
        "torch.import",
    ),
    _healthy("torch agrees", files=torch(True, 2), **_WITH_TORCH),
    _healthy("torch shows half of the devices", "gpu.agreement", files=torch(True, 1), **_WITH_TORCH),
)
HIDDEN = (
    _healthy("Arc next to Max", warns=("gpu.supported",), pci=(MAX_1550, ARC), kernel="6.8.0-45-generic"),
    _healthy("hidden by a mask", "gpu.hidden", environ={"ZE_AFFINITY_MASK": "7"}),
    _healthy(
        "a mask for each rank", warns=("gpu.hidden",), environ={"ZE_AFFINITY_MASK": "0", "WORLD_SIZE": "2"}
    ),
    _healthy(
        "one tile left by a selector",
        warns=("gpu.hidden",),
        environ={"ONEAPI_DEVICE_SELECTOR": "level_zero:0"},
    ),
    _healthy(
        "COMPOSITE hierarchy", warns=("gpu.hierarchy",), environ={"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}
    ),
)
HARDWARE = (
    _healthy(
        "link of half the width",
        warns=("gpu.pcie_link",),
        pci=like(MAX_1550, link=("32.0 GT/s PCIe", "8", "32.0 GT/s PCIe", "16")),
    ),
    _healthy("window of 256 MiB", warns=("gpu.bar",), pci=like(MAX_1550, bar_bytes=256 << 20)),
    _healthy(
        "a device id newer than the table",
        warns=("gpu.supported",),
        pci=like(MAX_1550, device="0x9abc", tiles=1),
    ),
    _healthy(
        "a virtual function with one tile",
        warns=("gpu.memory_tiles",),
        pci=like(MAX_1550, virtual=True, tiles=1),
    ),
    _healthy(
        "firmware that does not start",
        warns=("gpu.firmware",),
        files={
            "/var/log/kern.log": (
                "kernel: i915 0000:29:00.0: [drm] *ERROR* GT0: GuC initialization failed -EIO\n"
            )
        },
    ),
    _healthy("no OpenCL driver", warns=("opencl.icd",), files={"/etc/OpenCL/vendors/intel.icd": None}),
    _healthy(
        "no headers and no ocloc",
        warns=("driver.headers", "driver.ocloc"),
        files={
            "/usr/include/level_zero/ze_api.h": None,
            "/usr/include/CL/cl.h": None,
            "/usr/bin/ocloc": None,
        },
    ),
)
#: Every host, in the order above.
ALL = (*WORKING, *MISSING, *CLOSED, *STACK, *LAYERS, *HIDDEN, *HARDWARE)
#: What must be ok, by host: nothing found and skipped look the same in ``expect`` and ``warns``.
WELL: dict[str, frozenset[str]] = {
    HEALTHY.name: frozenset({
        "driver.family", "driver.headers", "driver.loader_source", "driver.mixed", "driver.ocloc",
        "gpu.agreement", "gpu.bar", "gpu.hidden", "gpu.hierarchy", "gpu.kernel_driver", "gpu.memory_tiles",
        "gpu.numa", "gpu.pcie_link", "gpu.present", "gpu.render_access", "gpu.render_node",
        "gpu.supported", "level_zero.enumerate", "level_zero.loader", "opencl.icd",
    }),
    "sycl-ls agrees": frozenset({"sycl.see"}),
}  # fmt: skip

"""Advice of GPU checks that depends on where one is: in a container, with half a driver."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.test_doctor_gpu_checks import LOADED, answered, at, device, live, run, tree

from xpubuild.doctor.checks import gpu, gpu_kernel, level_zero
from xpubuild.doctor.context import CheckContext

NVIDIA = device(vendor="0x10de")
ARC = device("0000:03:00.0", "0x56a0", **{"class": "0x030000"})
UNDER_XE = {**device(), "sys/bus/pci/drivers/xe/bind": ""}


def in_a_container(context: CheckContext) -> CheckContext:
    system = dataclasses.replace(context.host.os, container="docker")
    return dataclasses.replace(context, host=dataclasses.replace(context.host, os=system))


def itself(context: CheckContext) -> CheckContext:
    return context


@pytest.mark.parametrize(
    ("check", "files", "place", "word"),
    [
        (gpu.GpuPresent, NVIDIA, in_a_container, "a container sees the PCI bus of its host"),
        (gpu_kernel.KernelDriver, device(), in_a_container, "on the host of this container"),
        (gpu_kernel.KernelDriver, UNDER_XE, in_a_container, "driver module on the host of this container"),
        (
            gpu_kernel.KernelDriver,
            {**ARC, "proc/sys/kernel/osrelease": "6.8.0-45-generic"},
            itself,
            "load the driver",
        ),
    ],
)
def test_advice_fits_the_place(
    tmp_path: Path,
    *,
    check: type[Any],
    files: dict[str, str],
    place: Callable[[CheckContext], CheckContext],
    word: str,
) -> None:
    root = tree(tmp_path, files)
    for driver in (root / "sys/bus/pci/drivers").glob("*"):
        folder = root / "sys/bus/pci/devices/0000:29:00.0"
        (folder / "driver").symlink_to(f"../../drivers/{driver.name}")
        (folder / "drm/renderD128").mkdir(parents=True)
    outcome = run(check, place(at(root)))
    assert outcome.fix is not None
    assert word in outcome.fix.summary


@pytest.mark.parametrize(
    ("records", "word"),
    [
        (
            ({"init": 0}, {"driver": {"api": "1.3", "devices": []}}, {"done": True}),
            "the driver and the kernel",
        ),
        ((), "reinstall the loader and the driver"),
    ],
)
def test_a_driver_that_lists_nothing(
    monkeypatch: pytest.MonkeyPatch, records: tuple[dict[str, Any], ...], word: str
) -> None:
    outcome = run(level_zero.Enumerate, live(monkeypatch, answered(LOADED, *records)))
    assert outcome.fix is not None
    assert word in outcome.fix.summary

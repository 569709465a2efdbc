"""Advice of GPU checks that depends on where one is, and checks that are ok on no simulated host."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support.doctor_frame import a_context, a_host
from support.doctor_shows import shows
from support.files import lay
from unit.test_doctor_gpu_checks import GPU, LOADED, answered, at, device, facts, live, run

from xpubuild.doctor.checks import driver, gpu, gpu_kernel, level_zero, runtimes
from xpubuild.doctor.kit import Look
from xpubuild.doctor.look.sites import Site, Torch
from xpubuild.doctor.probes.children import Ending
from xpubuild.doctor.probes.level_zero import Enumeration, unmasked
from xpubuild.doctor.probes.runtimes import TorchCount, torch_count
from xpubuild.machine.drivers import DriverFacts
from xpubuild.machine.gpus import GpuFacts
from xpubuild.machine.system import OsFacts
from xpubuild.recipe.load import load

NVIDIA = device(vendor="0x10de")
ARC = {
    **device("0000:03:00.0", "0x56a0", **{"class": "0x030000"}),
    "proc/sys/kernel/osrelease": "6.8.0-45-generic",
}
NOTHING = {"driver": {"api": "1.3", "devices": []}}
UNDER_XE = {**device(), "sys/bus/pci/drivers/xe/bind": ""}


def in_a_container(context: Look) -> Look:
    system = dataclasses.replace(context.host.os, container="docker")
    return dataclasses.replace(context, host=dataclasses.replace(context.host, os=system))


@pytest.mark.parametrize(
    ("check", "files", "contained", "word"),
    [
        (gpu.gpu_present, NVIDIA, True, "a container sees the PCI bus of its host"),
        (gpu_kernel.gpu_kernel_driver, device(), True, "on the host of this container"),
        (gpu_kernel.gpu_kernel_driver, UNDER_XE, True, "driver module on the host of this container"),
        (gpu_kernel.gpu_kernel_driver, ARC, False, "load the driver"),
    ],
)
def test_advice_fits_the_place(
    tmp_path: Path, *, check: type[Any], files: dict[str, str], contained: bool, word: str
) -> None:
    root = lay(tmp_path, files)
    for bound in (root / "sys/bus/pci/drivers").glob("*"):
        folder = root / "sys/bus/pci/devices/0000:29:00.0"
        (folder / "driver").symlink_to(f"../../drivers/{bound.name}")
        (folder / "drm/renderD128").mkdir(parents=True)
    context = at(root)
    outcome = run(check, in_a_container(context) if contained else context)
    assert word in outcome.fix.summary


@pytest.mark.parametrize(
    ("records", "word"),
    [
        (({"init": 0}, NOTHING, {"done": True}), "the driver and the kernel"),
        ((), "install compatible releases"),
    ],
)
def test_a_driver_that_lists_nothing(
    monkeypatch: pytest.MonkeyPatch, records: tuple[dict[str, Any], ...], word: str
) -> None:
    outcome = run(level_zero.level_zero_enumerate, live(monkeypatch, answered(LOADED, *records)))
    assert word in outcome.fix.summary


OLD = {**LOADED, "version": "1.8.12", "lacks": ["zeInitDrivers", "zeDeviceGetRootDevice"]}
FIRST_LTS = facts(intel_level_zero_gpu=("lts-2350", "1.3.27642"), level_zero=("unknown", "1.14.0-744"))
SECOND_LTS = facts(libze_intel_gpu1=("lts2-2523", "25.18.33578"), libze1=("unknown", "1.16.1-1"))


@pytest.mark.parametrize(
    ("system", "drivers", "word", "command"),
    [
        (OsFacts(id="debian", version="12"), (), "Debian 12 has no loader", ""),
        (OsFacts(id="debian", version="13"), (), "install a loader >=1.13", "install -y libze1"),
        (OsFacts(id="ubuntu", version="24.04"), SECOND_LTS, "a loader >=1.13", "noble/lts/2523 unified"),
        # A host keeps its driver family: moving to the second LTS costs reliable results on a Max.
        (OsFacts(id="ubuntu", version="22.04"), FIRST_LTS, "a loader >=1.13", "jammy/lts/2350 unified"),
        (
            OsFacts(id="rocky", id_like=("rhel",), version="9.4"),
            (),
            "a loader >=1.13",
            "install -y level-zero",
        ),
    ],
)
def test_a_loader_that_is_too_old_is_replaced_by_one_that_exists(
    monkeypatch: pytest.MonkeyPatch, *, system: OsFacts, drivers: Any, word: str, command: str
) -> None:
    found = answered(OLD, {"init": 0}, {"driver": {"api": "1.3", "devices": [GPU]}}, {"done": True})
    context = live(monkeypatch, found)
    host = dataclasses.replace(context.host, os=system, drivers=drivers)
    outcome = run(level_zero.level_zero_versions, dataclasses.replace(context, host=host))
    assert (outcome.status, "finds no GPU" in outcome.detail) == ("fail", True)
    assert word in outcome.fix.summary
    assert command in "\n".join(outcome.fix.commands)
    # A package that brings the same loader again is no fix.
    assert bool(outcome.fix.commands) == bool(command)


# ---- Checks that are ok on no simulated host


@shows("ok", "torch.import")
def test_a_torch_that_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = TorchCount("2.8.0+xpu", built=True, count=1, ending=Ending("ok", ({"torch": "2.8.0+xpu"},)))
    monkeypatch.setattr(Look, "probe", lambda _self, ask: {torch_count: found}[ask])
    assert runtimes.torch_import(a_context()).detail == "torch 2.8.0+xpu"


@shows("ok", "level_zero.versions")
def test_a_loader_as_new_as_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = {"libraries": ["/x/libze_loader.so.1"], "lacks": [], "version": "1.19.2", "spec": "1.4"}
    records = (loader, {"init": 0}, {"driver": {"api": "1.3", "devices": [GPU]}}, {"done": True})
    found = Enumeration(Ending("ok", records, status=0))
    monkeypatch.setattr(Look, "probe", lambda _self, ask: {unmasked: found}[ask])
    level_zero.level_zero_versions(a_context())


@shows("ok", "driver.recipe")
def test_a_recipe_that_runs_with_gpu_and_driver(tmp_path: Path) -> None:
    gpu = GpuFacts("0000:29:00.0", "0x8086", "0x0bd5", "Max 1550", "max", "i915", None, None, 0, 2)
    drivers = (DriverFacts("lts-2350", "intel-level-zero-gpu", "1.3.27642.40-803~22.04", "dpkg"),)
    host = a_host(gpus=(gpu,), drivers=drivers)
    driver.driver_recipe(Look(host, {}, tmp_path, recipe=load("2.4")))


def pyzes_at(root: Path) -> Look:
    """Return a tree with a torch for XPU, and pyzes beside it."""
    packages = root / "env" / "lib"
    (packages / "torch").mkdir(parents=True)
    line = 'libName = "/usr/lib/x86_64-linux-gnu/lib" + libName + ".so.1"'
    (packages / "pyzes.py").write_text(f"        if sys.platform.startswith('linux'):\n            {line}\n")
    site = Site(root / "env/bin/python", (root / "env",), (packages,), ())
    look = a_context(root=root)
    torch = Torch(packages / "torch", "2.13.0", "", "", xpu=True, dist=None, python=site)
    object.__setattr__(look, "probe", lambda _ask: torch)
    return look


@shows("warn", "level_zero.pyzes")
def test_pyzes_on_a_system_that_keeps_the_loader_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "usr/lib64/libze_loader.so.1").touch()
    outcome = level_zero.level_zero_pyzes(pyzes_at(tmp_path))
    assert "and the loader is /usr/lib64/libze_loader.so.1" in outcome.detail
    assert outcome.fix.commands == (f"{tmp_path}/env/bin/python -m pip uninstall -y pyzes",)


@shows("ok", "level_zero.pyzes")
def test_pyzes_on_debian(tmp_path: Path) -> None:
    (tmp_path / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    (tmp_path / "usr/lib/x86_64-linux-gnu/libze_loader.so.1").touch()
    level_zero.level_zero_pyzes(pyzes_at(tmp_path))

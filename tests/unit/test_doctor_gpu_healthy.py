"""Checks of GPU and torch that are ok on no simulated host, with made-up answers of children and packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.doctor_frame import a_context, a_host
from support.doctor_shows import shows

from xpubuild.doctor.checks import driver, level_zero, runtimes
from xpubuild.doctor.kit import Look
from xpubuild.doctor.look.sites import Site, Torch
from xpubuild.doctor.probes.children import Ending
from xpubuild.doctor.probes.level_zero import Enumeration, unmasked
from xpubuild.doctor.probes.runtimes import TorchCount, torch_count
from xpubuild.machine.drivers import DriverFacts
from xpubuild.machine.gpus import GpuFacts
from xpubuild.recipe.load import load

GPU = {"type": 1, "name": "Max", "pci_address": "0000:29:00.0", "tiles": []}


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

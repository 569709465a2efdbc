"""Checks of GPU and driver on recorded trees and made-up answers of children."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.doctor_shows import shows
from support.files import lay

from xpubuild.doctor.checks import driver, gpu, gpu_kernel, level_zero, render_node, runtimes, visibility
from xpubuild.doctor.checks.render_node import Opened
from xpubuild.doctor.kit import Look, Outcome
from xpubuild.doctor.look.compatible import situation
from xpubuild.doctor.look.sites import torch_of
from xpubuild.doctor.probes.children import Ending
from xpubuild.doctor.probes.level_zero import MASK, Enumeration, enumeration, unmasked
from xpubuild.doctor.probes.runtimes import TorchCount, torch_count
from xpubuild.machine.drivers import DriverFacts
from xpubuild.machine.host_report import host_report
from xpubuild.machine.readers import LIVE_ROOT
from xpubuild.recipe.load import load
from xpubuild.recipe.situation import Situation


def device(address: str = "0000:29:00.0", number: str = "0x0bd5", **more: str) -> dict[str, str]:
    place = f"sys/bus/pci/devices/{address}"
    files = {"vendor": "0x8086", "device": number, "class": "0x038000", "numa_node": "0", **more}
    return {f"{place}/{name}": f"{text}\n" for name, text in files.items()}


def at(root: Path, environ: Mapping[str, str] | None = None, **facts: Any) -> Look:
    host = host_report(root)
    return Look(dataclasses.replace(host, **facts), environ or {}, root)


def answered(*records: dict[str, Any], how: str = "ok", status: int = 0) -> Enumeration:
    return Enumeration(Ending(how, records, status=status))


def test_wsl_has_no_pci_gpu(tmp_path: Path) -> None:
    kernel = {"proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2", "proc/self/cgroup": "0::/"}
    context = at(lay(tmp_path, kernel))
    outcome = gpu.gpu_present(context)
    assert (outcome.status, outcome.fix is None) == ("fail", False)
    lay(tmp_path, {"dev/dxg": ""})
    assert gpu.gpu_present(context).status == "ok"
    assert gpu.gpu_supported(context).status == "ok"
    assert gpu_kernel.gpu_kernel_driver(context).status == "ok"
    assert render_node.gpu_render_node(context).status == "ok"


@pytest.mark.parametrize(
    ("number", "address", "status"),
    [
        ("0x0bd5", "0000:29:00.0", "ok"),
        ("0x0b69", "0000:29:00.0", "ok"),  # a Max outside the usual id range
        ("0x56c0", "0000:29:00.0", "warn"),  # Flex
        ("0x9abc", "0000:29:00.0", "warn"),  # newer than the table
        ("0x9abc", "0000:00:02.0", "fail"),  # in a processor: older
    ],
)
def test_families(tmp_path: Path, number: str, address: str, status: str) -> None:
    assert gpu.gpu_supported(at(lay(tmp_path, device(address, number)))).status == status


@shows("ok", "gpu.numa")
@shows("warn", "gpu.numa")
def test_a_numa_node_that_the_firmware_does_not_tell(tmp_path: Path) -> None:
    nodes = {f"sys/devices/system/node/node{n}/cpulist": str(n) for n in range(2)}
    known = lay(tmp_path / "a", {**nodes, **device()})
    unknown = lay(tmp_path / "b", {**nodes, **device(numa_node="-1")})
    assert gpu.gpu_numa(at(known)).status == "ok"
    assert gpu.gpu_numa(at(unknown)).status == "warn"
    assert gpu.gpu_numa(at(lay(tmp_path / "c", device(numa_node="-1")))).status == "ok"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nomodeset", "nomodeset"),
        ("i915.modeset=0", "i915.modeset=0"),
        ("i915.force_probe=!0bd5", "force_probe"),
        ("modprobe.blacklist=i915,xe", "modprobe.blacklist"),
        ("i915.force_probe=!56a0 module_blacklist=nouveau", ""),
    ],
)
def test_what_the_kernels_command_line_keeps_out(tmp_path: Path, line: str, said: str) -> None:
    outcome = gpu_kernel.gpu_kernel_driver(at(lay(tmp_path, {**device(), "proc/cmdline": line})))
    assert outcome.status == "fail"
    assert said in outcome.detail
    assert ("was started with" in outcome.detail) == bool(said)


BEGUN = ({"stage": "dlopen"}, {"libraries": ["/x/libze_loader.so.1.8.0"]}, {"stage": "zeInit"})
CRASH = answered(*BEGUN, how="crash", status=-11)
LOADED = {
    "libraries": ["/x/libze_loader.so.1.8.0"],
    "lacks": ["zeInitDrivers"],
    "version": "1.8.0",
    "spec": "1.4",
}
GPU = {"type": 1, "name": "Max", "pci_address": "0000:29:00.0", "tiles": []}


def live(monkeypatch: pytest.MonkeyPatch, found: Enumeration, recipe: str | None = None) -> Look:
    """A running machine whose child answered with ``found``."""
    loaded = load(recipe) if recipe else None
    context = Look(host_report(Path("/nonexistent-root")), {}, LIVE_ROOT, recipe=loaded)
    here = Situation(gpu="max", driver="lts-2350", oneapi=("2025.1",), python=("3.12",), gcc="12.2.0")
    answers = {enumeration: found, unmasked: found, torch_of: None, situation: here}
    monkeypatch.setattr(Look, "probe", lambda self, ask: answers[ask])
    monkeypatch.setattr(level_zero, "FOLDERS", ())
    return context


def run(check: type[Any], context: Look) -> Outcome:
    outcome: Outcome = check(context)
    return outcome


def test_a_loader_that_cannot_be_loaded_for_the_cxx_library(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by /usr/lib/libze_loader.so.1)"
    context = live(monkeypatch, answered({"stage": "dlopen"}, {"load_error": said}))
    outcome = run(level_zero.level_zero_loader, context)
    assert outcome.status == "fail"
    assert "conda install -c conda-forge libstdcxx-ng" in outcome.fix.commands


@pytest.mark.parametrize(
    ("api", "spec", "lacks", "recipe", "status"),
    [
        ("1.3", "1.4", [], None, "ok"),
        ("1.6", "1.4", [], None, "warn"),
        ("1.10", "1.9", [], None, "warn"),
        ("1.3", "1.4", ["zeInitDrivers"], None, "ok"),
        ("1.3", "1.4", ["zeInitDrivers"], "2.8", "ok"),
        ("1.3", "1.4", ["zeInitDrivers", "zeDeviceGetRootDevice"], None, "fail"),
        ("1.3", "1.4", ["zeInitDrivers", "zeDeviceGetRootDevice"], "2.8", "fail"),
        ("1.3", "1.4", ["zeInitDrivers", "zeDeviceGetRootDevice"], "2.4", "ok"),
    ],
)
def test_loader_against_driver_and_runtime(
    monkeypatch: pytest.MonkeyPatch, *, api: str, spec: str, lacks: list[str], recipe: str | None, status: str
) -> None:
    records = ({**LOADED, "version": "1.19.2", "spec": spec, "lacks": lacks}, {"init": 0})
    found = answered(*records, {"driver": {"api": api, "devices": [GPU]}}, {"done": True})
    assert run(level_zero.level_zero_versions, live(monkeypatch, found, recipe)).status == status


def facts(**packages: tuple[str, str]) -> tuple[DriverFacts, ...]:
    names = {name.replace("_", "-"): value for name, value in packages.items()}
    return tuple(DriverFacts(family, name, version, "dpkg") for name, (family, version) in names.items())


@pytest.mark.parametrize(
    ("loader", "status"),
    [("1.21.9.0-1136~24.04", "ok"), ("1.16.1-1", "warn"), ("1.21.9-1~24.04~ppa1", "warn")],
)
def test_the_source_of_loader_and_driver(tmp_path: Path, loader: str, status: str) -> None:
    drivers = facts(libze1=("unknown", loader), libze_intel_gpu1=("lts2-2523", "25.18.33578.38-1146~24.04"))
    assert driver.driver_loader_source(at(tmp_path, drivers=drivers)).status == status


@pytest.mark.parametrize(
    ("numbers", "status"),
    [
        ((0, 0), "ok"),
        ((0, errno.EPERM), "ok"),  # a batch job was given one of two
        ((0, errno.EACCES), "warn"),
        ((errno.EPERM, errno.EPERM), "fail"),
    ],
)
def test_some_nodes_of_several(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, numbers: tuple[int, int], status: str
) -> None:
    devices = {**device(), **device("0000:3a:00.0")}
    root = lay(tmp_path, {**devices, "sys/bus/pci/drivers/i915/bind": ""})
    for index, address in enumerate(("0000:29:00.0", "0000:3a:00.0")):
        place = root / "sys/bus/pci/devices" / address
        (place / "driver").symlink_to("../../drivers/i915")
        (place / f"drm/renderD{128 + index}").mkdir(parents=True)
    errors = {f"/dev/dri/renderD{128 + index}": number for index, number in enumerate(numbers)}
    monkeypatch.setattr(render_node, "open_node", lambda path: Opened(str(path), errors[str(path)]))
    assert render_node.gpu_render_access(at(root)).status == status


NOT_STARTED = Enumeration(Ending("missing", words="'/usr/bin/python3' cannot be started"))
WORKING = answered(LOADED, {"init": 0}, {"driver": {"api": "1.3", "devices": [GPU]}}, {"done": True})


@pytest.mark.parametrize(
    ("masked", "status", "words"),
    [
        (CRASH, "fail", "but not without it, the device enumeration was killed by SIGSEGV in zeInit"),
        (answered(LOADED, {"init": 0x70000006}), "fail", "REQUIRES_RESET"),
        (answered(LOADED, {"init": 0x78000001}), "fail", "hides all 1 devices"),
        (answered({"init": 0}, {"done": True}), "fail", "hides all 1 devices"),
        (NOT_STARTED, "error", "cannot be started"),
    ],
)
def test_a_mask_is_blamed_for_what_it_hides_alone(
    monkeypatch: pytest.MonkeyPatch, masked: Enumeration, status: str, words: str
) -> None:
    context = dataclasses.replace(live(monkeypatch, WORKING), environ={MASK: "0"})
    answers = {enumeration: masked, unmasked: WORKING}
    monkeypatch.setattr(Look, "probe", lambda self, ask: answers[ask])
    outcome = run(visibility.gpu_hidden, context)
    assert (outcome.status, words in outcome.detail) == (status, True), outcome.detail
    assert ("hides all" in outcome.detail) == ("hides all" in words)


BEGAN: dict[str, Any] = {"stage": "import torch"}


@pytest.mark.parametrize(
    ("ending", "hollow", "status", "words"),
    [
        (Ending("crash", (BEGAN,), status=-11), False, "fail", "SIGSEGV in import torch"),
        (Ending("hang", (BEGAN,)), False, "fail", "timed out in import torch"),
        (
            Ending("status", (BEGAN,), words="Trace\nImportError: x\n", status=1),
            False,
            "fail",
            "ImportError: x",
        ),
        (Ending("ok", ({"torch": None},)), True, "warn", "no __init__.py"),
        (Ending("ok", ({"torch": None},)), False, "skip", "torch is not installed"),
        (Ending("status", words="bad site", status=1), False, "skip", "bad site"),
        (Ending("missing", words="no such file"), False, "error", "no such file"),
        (None, False, "skip", "no Python"),
    ],
)
def test_how_the_import_of_torch_ended(
    monkeypatch: pytest.MonkeyPatch, *, ending: Ending | None, hollow: bool, status: str, words: str
) -> None:
    context = dataclasses.replace(live(monkeypatch, WORKING), python=Path("/usr/bin/python3"))
    answers = {torch_count: TorchCount(ending=ending, hollow=hollow)}
    monkeypatch.setattr(Look, "probe", lambda self, ask: answers[ask])
    outcome = run(runtimes.torch_import, context)
    assert (outcome.status, words in outcome.detail) == (status, True), outcome.detail

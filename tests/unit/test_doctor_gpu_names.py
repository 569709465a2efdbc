"""What GPU checks tell to install, by distribution, and what they take for trouble in logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.doctor_shows import shows
from unit.test_doctor_gpu_checks import at, device, facts, tree

from xpubuild.doctor.checks import driver, gpu_kernel
from xpubuild.doctor.fixes import install_need
from xpubuild.doctor.kit import Look
from xpubuild.recipe.load import load

SYSTEMS = {
    "rhel": 'ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="9.4"\n',
    "rocky": 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n',
    "fedora": "ID=fedora\nVERSION_ID=42\n",
    "sles": 'ID="sles"\nID_LIKE="suse"\nVERSION_ID="15.5"\n',
    "debian12": 'ID=debian\nVERSION_ID="12"\n',
    "debian13": 'ID=debian\nVERSION_ID="13"\n',
    "ubuntu": 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n',
}
FIRST = facts(
    intel_level_zero_gpu=("lts-2350", "1.3.27642.40-803~22.04"), level_zero=("unknown", "1.14.0-744~22.04")
)
SECOND = facts(
    libze_intel_gpu1=("lts2-2523", "25.18.33578.38-1146~24.04"), libze1=("unknown", "1.21.9.0-1136~24.04")
)


def on(folder: Path, system: str, **more: str) -> Look:
    return at(tree(folder, {"etc/os-release": SYSTEMS[system], **more}))


@pytest.mark.parametrize(
    ("system", "names", "loader", "headers"),
    [
        ("rhel", "intel-level-zero-gpu level-zero intel-opencl", "level-zero", "level-zero-devel"),
        ("rocky", "intel-level-zero-gpu level-zero intel-opencl", "level-zero", "level-zero-devel"),
        ("sles", "intel-level-zero-gpu level-zero intel-opencl", "level-zero", "level-zero-devel"),
        (
            "fedora",
            "intel-level-zero oneapi-level-zero intel-opencl",
            "oneapi-level-zero",
            "oneapi-level-zero-devel",
        ),
        ("ubuntu", "libze-intel-gpu1 libze1 intel-opencl-icd", "libze1", "libze-dev"),
    ],
)
def test_names_of_driver_loader_and_headers(
    tmp_path: Path, system: str, names: str, loader: str, headers: str
) -> None:
    context = on(tmp_path, system)
    assert install_need(context, "driver")[-1].endswith(f"install -y {names}")
    assert install_need(context, "loader")[-1].endswith(f"install -y {loader}")
    found = driver.driver_headers(context)
    assert found.fix is not None
    assert found.fix.commands[-1].endswith(f"install -y {headers} opencl-headers")


def firmware(context: Look, line: str) -> Look:
    """The same machine with a card under i915 and a line in its kernel log."""
    root = tree(context.root, {**device(), "sys/bus/pci/drivers/i915/bind": ""})
    tree(root, {"var/log/kern.log": f"kernel: i915 0000:29:00.0: [drm] {line}\n"})
    (root / "sys/bus/pci/devices/0000:29:00.0/driver").symlink_to("../../drivers/i915")
    return at(root)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GuC firmware i915/pvc.bin: no failures", "ok"),
        ("GuC self test: 0 errors", "ok"),
        ("HuC authenticated without error", "ok"),
        ("GuC firmware i915/pvc_guc_70.bin version 70.29.2", "ok"),
        ("*ERROR* GT0: GuC firmware i915/pvc_guc_70.bin: fetch failed -ENOENT", "warn"),
        ("*ERROR* GT0: GuC initialization failed -EIO", "warn"),
        ("GuC error state, 3 failures", "warn"),
        ("HuC firmware is missing", "warn"),
        ("GPU HANG: ecode 12:0:00000000", "warn"),
    ],
)
def test_what_is_trouble_in_the_log(tmp_path: Path, line: str, status: str) -> None:
    assert gpu_kernel.gpu_firmware(firmware(at(tmp_path), line)).status == status


@pytest.mark.parametrize(("drivers", "away"), [(FIRST, "libze1"), (SECOND, "level-zero")])
def test_one_loader_is_one_too_many(
    tmp_path: Path, *, drivers: tuple[driver.DriverFacts, ...], away: str
) -> None:
    other = facts(libze1=("unknown", "1.21.9.0-1136~24.04"), level_zero=("unknown", "1.21.9.0-1136~24.04"))
    both = (*drivers, *(item for item in other if item.package == away))
    context = at(tree(tmp_path, {"etc/os-release": SYSTEMS["ubuntu"]}), drivers=both)
    outcome = driver.driver_loader_source(context)
    assert outcome.status == "warn"
    assert outcome.fix is not None
    assert outcome.fix.commands == (f"apt-get remove -y {away}",)


@pytest.mark.parametrize(("drivers", "status"), [(FIRST, "warn"), (SECOND, "ok")])
def test_the_ocloc_of_an_image_is_judged_by_the_driver_beside_it(
    tmp_path: Path, *, drivers: tuple[driver.DriverFacts, ...], status: str
) -> None:
    root = tree(tmp_path, {"etc/os-release": SYSTEMS["ubuntu"], "usr/bin/ocloc": ""})
    context = replace(at(root, drivers=drivers), recipe=load("2.12"))
    found = driver.driver_ocloc(context)
    assert found.status == status
    assert ("does not know bmg" in found.detail) == (status == "warn")


@shows("ok", "gpu.firmware")
def test_a_log_without_trouble(tmp_path: Path) -> None:
    line = "xe 0000:03:00.0: [drm] GuC firmware version 70.36.0"
    assert gpu_kernel.gpu_firmware(firmware(at(tmp_path), line)).status == "ok"

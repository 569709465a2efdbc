"""Why a render node could not be opened: what is said, and what to type."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.doctor_frame import a_context
from support.doctor_shows import shows
from support.files import lay, script
from unit.test_doctor_gpu_checks import at, device, facts

from xpubuild.doctor.checks import driver, gpu_kernel, render_node
from xpubuild.doctor.checks.render_node import Opened, open_node
from xpubuild.doctor.fixes import install_need
from xpubuild.doctor.kit import Fix, Look
from xpubuild.doctor.probes import children, runtimes
from xpubuild.doctor.probes.children import Ending
from xpubuild.doctor.probes.level_zero import SelectorError, visible
from xpubuild.machine.host_report import host_report
from xpubuild.recipe.load import load

NODE = "/dev/dri/renderD128"
MINE, ANOTHER = 4_000_000, 4_000_001
Explain = Callable[..., tuple[str, Fix]]


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """A machine that is no container, looked at by somebody without rights."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/user.slice\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(render_node, "groups_of_process", lambda: frozenset({MINE}))
    monkeypatch.setattr(render_node, "_user_name", lambda: "ada")
    monkeypatch.setattr(Opened, "group", property(lambda node: str(node.gid)))
    lay(tmp_path, {**device(), "sys/bus/pci/drivers/i915/bind": ""})
    place = tmp_path / "sys/bus/pci/devices/0000:29:00.0"
    (place / "driver").symlink_to("../../drivers/i915")
    (place / "drm/renderD128").mkdir(parents=True)
    return Look(host_report(tmp_path), {}, tmp_path)


@pytest.fixture
def explain(context: Look, monkeypatch: pytest.MonkeyPatch) -> Explain:
    """Return what tells why the machine's node is closed, and the fix, as the check answers."""

    def ask(error: int = errno.EACCES, **changes: Any) -> tuple[str, Fix]:
        seen = Opened(NODE, error, **{"mode": 0o020660, "uid": 0, "gid": ANOTHER, **changes})
        monkeypatch.setattr(render_node, "open_node", lambda path: seen)
        found = render_node.gpu_render_access(context)
        assert found.status == "fail"
        return found.detail, found.fix

    return ask


def test_opening_is_the_test(tmp_path: Path) -> None:
    node = tmp_path / "node é"
    node.write_bytes(b"")
    assert open_node(node).error == 0
    assert open_node(tmp_path).error == errno.EISDIR
    assert open_node(tmp_path / "none") == Opened(str(tmp_path / "none"), errno.ENOENT)


def test_selinux_explains_only_what_the_bits_would_allow(context: Look, explain: Explain) -> None:
    enforce = context.root / "sys/fs/selinux/enforce"
    enforce.parent.mkdir(parents=True)
    enforce.write_text("1")
    why, fix = explain(gid=MINE)
    assert "SELinux" in why
    assert any("container_use_devices" in command for command in fix.commands)
    assert "SELinux" not in explain()[0]
    enforce.write_text("0")
    assert "nodev" in explain(gid=MINE)[0]


def test_a_node_that_its_group_may_not_use(explain: Explain) -> None:
    why, fix = explain(mode=0o020600)
    assert "that group has no read and write permission" in why
    assert fix.commands == ("udevadm trigger --subsystem-match=drm",)


# ---- Programs that doctor starts: their environment, how they end, and what is made of what they say


PATH = "/usr/bin:/bin"


@pytest.mark.parametrize(
    ("ending", "stage", "told"),
    [
        (Ending("ok"), "start", "it ended"),
        (Ending("status", ({"stage": 1}, {"other": 2}), status=3), "1", "it exited with code 3"),
        (Ending("crash", ({"stage": "a"}, {"stage": "b"}), status=-signal.SIGABRT), "b",
         "it was killed by SIGABRT in b"),
        (Ending("crash", status=-99), "start", "it was killed by signal 99 in start"),
        (Ending("hang", ({"stage": "a"},)), "a", "it timed out in a"),
        (Ending("missing"), "start", "it ended"),
    ],
)  # fmt: skip
def test_how_a_program_ended(ending: Ending, stage: str, told: str) -> None:
    assert (ending.stage, ending.told("it")) == (stage, told)


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        ('echo "$A"; echo " $B " >&2', Ending("ok", (), "a\n", "", 0, "  \n")),
        ("printf %0500d 7 >&2; exit 4", Ending("status", (), "", "0" * 399 + "7", 4, "0" * 499 + "7")),
        ("echo '{\"a\": 1}'; kill -9 $$", Ending("crash", ({"a": 1},), '{"a": 1}\n', "", -9, "")),
    ],
)
def test_a_program_has_the_callers_environment(body: str, ending: Ending) -> None:
    context = a_context(environ={"PATH": PATH, "A": "a"})
    assert children.child(context, ["sh", "-c", body]) == ending


TORCH = """\
__version__ = "2.8.0+xpu"
class xpu:
    _is_compiled = staticmethod(lambda: {built})
    device_count = staticmethod(lambda: 3)
"""


@pytest.mark.parametrize(
    ("text", "version", "built", "count"),
    [
        (TORCH.format(built=True), "2.8.0+xpu", True, 3),
        (TORCH.format(built=False), "2.8.0+xpu", False, 0),
        ("__version__ = '2'\nclass xpu: pass\n", "2", False, 0),
        ("__version__ = '1'\n", "1", False, 0),
    ],
)
def test_a_torch_is_asked(tmp_path: Path, text: str, version: str, built: bool, count: int) -> None:
    (tmp_path / "torch.py").write_text(text)
    environ = {"PATH": PATH, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    context = dataclasses.replace(a_context(environ=environ), python=Path(sys.executable))
    found = runtimes.torch_count(context)
    assert (found.version, found.built, found.count, found.hollow) == (version, built, count, False)
    assert (found.ending.how, found.ending.stage) == ("ok", "torch.xpu.device_count")
    assert not found.import_failed


def test_sycl_ls_is_that_of_the_caller(tmp_path: Path) -> None:
    assert runtimes.sycl_devices(a_context(environ={"PATH": str(tmp_path)})) == runtimes.SyclDevices(None)
    lines = ["  [level_zero:gpu][level_zero:0] a", "other", "[EXT_oneapi_opencl:cpu:3] b"]
    program = script(tmp_path / "sycl-ls", "\n".join(("cat <<'E'", *lines, "E")))
    found = runtimes.sycl_devices(a_context(environ={"PATH": f"{tmp_path}:{PATH}"}))
    assert found.program == str(program)
    assert found.lines == (lines[0].strip(), lines[2])
    assert (found.count("level_zero"), found.count("opencl"), found.count("opencl", "cpu")) == (1, 0, 1)


def test_adapters_that_are_installed_and_do_not_load() -> None:
    say = "<LOADER>[INFO]: failed to load adapter '{0}' with error: {1}"
    log = "\n".join(
        (
            say.format("/l/libur_adapter_a.so.0", "libz.so: cannot open <LOADER>more"),
            say.format(
                "/l/libur_adapter_b.so.0", "/l/libur_adapter_b.so.0: cannot open shared object file: x"
            ),
            say.format("libur_adapter_c.so.0", "undefined symbol"),
        )
    )
    failed = (
        ("/l/libur_adapter_a.so.0", "libz.so: cannot open"),
        ("libur_adapter_c.so.0", "undefined symbol"),
    )
    assert runtimes.failures(log) == failed
    told = "libur_adapter_a.so.0: libz.so: cannot open; libur_adapter_c.so.0: undefined symbol"
    assert runtimes.names((*failed, *failed)) == told
    platforms = [{"devices": 2}, {"devices": 1}]
    found = runtimes.UnifiedRuntime(None, adapters=({"adapter": "a", "platforms": platforms},))
    assert (found.devices("a"), found.devices("b")) == (3, 0)


# ---- What ONEAPI_DEVICE_SELECTOR leaves of Level Zero's GPUs


@pytest.mark.parametrize(
    ("value", "tiles", "seen"),
    [
        ("", (0, 0), 2),
        ("*:*", (0, 0), 2),
        ("level_zero:*", (0, 0), 2),
        ("LEVEL_ZERO:GPU", (0, 0), 2),
        ("level_zero:1", (0, 0), 1),
        ("level_zero:0,1", (0, 0), 2),
        ("level_zero:7", (0, 0), 0),
        ("*:cpu", (0, 0), 0),
        ("opencl:*", (0, 0), 0),
        ("opencl:*;level_zero:0", (0, 0), 1),
        ("!level_zero:*", (0, 0), 0),
        ("!opencl:*", (0, 0), 2),
        ("!level_zero:0", (0, 0), 1),
        ("level_zero:*;!level_zero:1", (0, 0, 0), 2),
        # Tiles of cards in COMPOSITE mode become devices of their own.
        ("level_zero:0.0", (2, 2), 1),
        ("level_zero:0.*", (2, 2), 2),
        ("level_zero:*.*", (2, 2), 4),
        ("level_zero:0.5", (2,), 0),
        ("level_zero:0.0", (0,), 0),
        ("level_zero:0;level_zero:1.1", (2, 2), 2),
    ],
)
def test_how_many_are_left(value: str, tiles: tuple[int, ...], seen: int) -> None:
    assert visible(value, tiles) == seen


@pytest.mark.parametrize(
    "value", ["gpu", "level_zero", "level_zero:first", "zero:0", "level_zero:", "opencl:0.a"]
)
def test_what_ends_every_sycl_program(value: str) -> None:
    with pytest.raises(SelectorError):
        visible(value, (0,))


# ---- What GPU checks tell to install, by distribution, and what they take for trouble in logs


SYSTEMS = {
    "rhel": 'ID="rhel"\nID_LIKE="fedora"\nVERSION_ID="9.4"\n',
    "rocky": 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n',
    "fedora": "ID=fedora\nVERSION_ID=42\n",
    "sles": 'ID="sles"\nID_LIKE="suse"\nVERSION_ID="15.5"\n',
    "ubuntu": 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n',
}
FIRST = facts(
    intel_level_zero_gpu=("lts-2350", "1.3.27642.40-803~22.04"), level_zero=("unknown", "1.14.0-744~22.04")
)
SECOND = facts(
    libze_intel_gpu1=("lts2-2523", "25.18.33578.38-1146~24.04"), libze1=("unknown", "1.21.9.0-1136~24.04")
)


def on(folder: Path, system: str, **more: str) -> Look:
    return at(lay(folder, {"etc/os-release": SYSTEMS[system], **more}))


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
    assert found.fix.commands[-1].endswith(f"install -y {headers} opencl-headers")


def firmware(context: Look, line: str) -> Look:
    """The same machine with a card under i915 and a line in its kernel log."""
    root = lay(context.root, {**device(), "sys/bus/pci/drivers/i915/bind": ""})
    lay(root, {"var/log/kern.log": f"kernel: i915 0000:29:00.0: [drm] {line}\n"})
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
    context = at(lay(tmp_path, {"etc/os-release": SYSTEMS["ubuntu"]}), drivers=both)
    outcome = driver.driver_loader_source(context)
    assert outcome.status == "warn"
    assert outcome.fix.commands == (f"apt-get remove -y {away}",)


@pytest.mark.parametrize(("drivers", "status"), [(FIRST, "warn"), (SECOND, "ok")])
def test_the_ocloc_of_an_image_is_judged_by_the_driver_beside_it(
    tmp_path: Path, *, drivers: tuple[driver.DriverFacts, ...], status: str
) -> None:
    root = lay(tmp_path, {"etc/os-release": SYSTEMS["ubuntu"], "usr/bin/ocloc": ""})
    context = replace(at(root, drivers=drivers), recipe=load("2.12"))
    found = driver.driver_ocloc(context)
    assert found.status == status
    assert ("does not know bmg" in found.detail) == (status == "warn")


@shows("ok", "gpu.firmware")
def test_a_log_without_trouble(tmp_path: Path) -> None:
    line = "xe 0000:03:00.0: [drm] GuC firmware version 70.36.0"
    assert gpu_kernel.gpu_firmware(firmware(at(tmp_path), line)).status == "ok"

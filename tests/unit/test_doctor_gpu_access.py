"""Why a render node could not be opened: what is said, and what to type."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from xpubuild.doctor.context import Context
from xpubuild.doctor.probes import access
from xpubuild.doctor.probes.access import Opened, explain, open_node
from xpubuild.host.report import host_report

NODE = "/dev/dri/renderD128"
ANOTHER = 4_000_001


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """A machine that is no container, looked at by somebody without rights."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/user.slice\n")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(access, "groups_of_process", lambda: frozenset({1000}))
    return Context(host_report(tmp_path), {}, tmp_path)


def opened(error: int = errno.EACCES, **changes: Any) -> Opened:
    return Opened(NODE, error, **{"mode": 0o020660, "uid": 0, "gid": ANOTHER, **changes})


def test_opening_is_the_test(tmp_path: Path) -> None:
    node = tmp_path / "node é"
    node.write_bytes(b"")
    assert open_node(node).error == 0
    assert open_node(tmp_path).error == errno.EISDIR
    assert open_node(tmp_path / "none") == Opened(str(tmp_path / "none"), errno.ENOENT)


def test_device_rules_of_a_cgroup(context: Context) -> None:
    why, fix = explain(context, opened(errno.EPERM))
    assert "cgroup" in why
    assert f"docker run --device {NODE} ..." in fix.commands


def test_a_driver_that_refuses(context: Context) -> None:
    why, fix = explain(context, opened(errno.ENODEV))
    assert why == "the driver refuses it"
    assert "dmesg" in fix.commands[0]


def test_selinux_explains_only_what_the_bits_would_allow(context: Context) -> None:
    enforce = context.root / "sys/fs/selinux/enforce"
    enforce.parent.mkdir(parents=True)
    enforce.write_text("1")
    why, fix = explain(context, opened(gid=1000))
    assert "SELinux" in why
    assert any("container_use_devices" in command for command in fix.commands)
    assert "SELinux" not in explain(context, opened())[0]
    enforce.write_text("0")
    assert "nodev" in explain(context, opened(gid=1000))[0]


def test_a_node_that_its_group_may_not_use(context: Context) -> None:
    why, fix = explain(context, opened(mode=0o020600))
    assert "not even that group" in why
    assert fix.commands == ("udevadm trigger --subsystem-match=drm",)


def test_a_group_without_a_name_is_told_by_its_number(context: Context) -> None:
    why, fix = explain(context, opened())
    assert f"the group {ANOTHER} (gid {ANOTHER}, mode 0660)" in why
    assert f"usermod -aG {ANOTHER}" in fix.commands[0]


def test_the_access_list_of_a_local_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    node = tmp_path / "node"
    node.write_bytes(b"")
    node.chmod(0o660)
    entries = [(0x01, 6, 0xFFFFFFFF), (0x02, 6, 1000), (0x08, 4, 44), (0x10, 6, 0xFFFFFFFF)]
    raw = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    monkeypatch.setattr(os, "getxattr", lambda path, name: raw)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(access, "groups_of_process", lambda: frozenset({1000}))
    seen = open_node(node)
    assert seen.listed == (("u", 1000, 6), ("g", 44, 4))
    assert Opened(NODE, 0, 0o020660, 0, ANOTHER, seen.listed).by_list_only
    assert not Opened(NODE, 0, 0o020660, 0, 1000, seen.listed).by_list_only
    assert not Opened(NODE, 0, 0o020666, 0, ANOTHER, seen.listed).by_list_only
    assert not Opened(NODE, errno.EACCES, 0o020660, 0, ANOTHER, seen.listed).by_list_only

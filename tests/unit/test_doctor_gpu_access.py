"""Why a render node could not be opened: what is said, and what to type."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.test_doctor_gpu_checks import device, tree

from xpubuild.doctor.checks import render_node
from xpubuild.doctor.checks.render_node import Opened, open_node
from xpubuild.doctor.kit import Fix, Look
from xpubuild.machine.host_report import host_report

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
    tree(tmp_path, {**device(), "sys/bus/pci/drivers/i915/bind": ""})
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
        assert found.fix is not None
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


def test_a_member_since_after_the_login(explain: Explain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_node, "_member", lambda user, gid: (user, gid) == ("ada", ANOTHER))
    why, fix = explain()
    assert "this login session is older" in why
    assert fix.commands == (f"newgrp {ANOTHER}",)


@pytest.mark.parametrize(("gid", "word"), [(65534, "keep-groups"), (ANOTHER, f"--group-add {ANOTHER}")])
def test_a_container_with_other_groups(
    context: Look, explain: Explain, monkeypatch: pytest.MonkeyPatch, gid: int, word: str
) -> None:
    monkeypatch.setattr(render_node, "contained", lambda asked: asked is context)
    assert word in explain(gid=gid)[1].commands[0]

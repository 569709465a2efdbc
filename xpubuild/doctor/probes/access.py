"""Opens a device node; if that fails, finds the reason."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import struct
from pathlib import Path
from typing import Any

from xpubuild.doctor.fixes import as_root
from xpubuild.doctor.kit import Fix, Look
from xpubuild.doctor.probes.machine import contained
from xpubuild.frozen import frozen
from xpubuild.machine.readers import read_text

#: What the kernel shows for an owner that the user namespace does not map (proc(5), overflowgid).
_NOBODY = 65534
_ACL_USER, _ACL_GROUP = 0x02, 0x08
_OWNER, _GROUP, _OTHERS = 0o600, 0o060, 0o006  # read and write
_ENTRY_BYTES, _HEADER_BYTES = 8, 4


@frozen
class Opened:
    """One attempt to open a node; ``error`` is the errno or 0, ``listed`` its access control list."""

    node: str
    error: int
    mode: int = 0
    uid: int = 0
    gid: int = 0
    listed: tuple[tuple[str, int, int], ...] = ()

    @property
    def group(self) -> str:
        """The name of the node's group, or its number if it has no name."""
        try:
            return grp.getgrgid(self.gid).gr_name
        except KeyError:
            return str(self.gid)

    @property
    def by_list_only(self) -> bool:
        """Whether neither ownership nor group gave the access, but an entry for this user."""
        mine = self.gid in groups_of_process() or os.geteuid() in (0, self.uid) or _allows(self.mode, _OTHERS)
        return not self.error and not mine and ("u", os.geteuid()) in {item[:2] for item in self.listed}

    def to_json(self) -> dict[str, Any]:
        """Return what was seen, for the evidence."""
        return {
            "opened": not self.error,
            "error": errno.errorcode.get(self.error, "") if self.error else "",
            "mode": f"{self.mode & 0o7777:04o}",
            "owner": self.uid,
            "group": self.group,
            "gid": self.gid,
        }


def open_node(path: Path) -> Opened:
    """Open a node for reading and writing; never raises."""
    number = 0
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        number = error.errno or errno.EIO
    try:
        info = path.stat()
    except OSError:
        return Opened(str(path), number)
    return Opened(str(path), number, info.st_mode, info.st_uid, info.st_gid, _access_list(path))


def groups_of_process() -> frozenset[int]:
    """Return the groups that this process really has."""
    return frozenset((os.getegid(), *os.getgroups()))


def _access_list(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return (u or g, id, permissions) of the named entries of a POSIX access list (acl(5), version 2)."""
    try:
        raw = os.getxattr(path, "system.posix_acl_access")
    except OSError:
        return ()
    named = {_ACL_USER: "u", _ACL_GROUP: "g"}
    entries = (
        struct.iter_unpack("<HHI", raw[_HEADER_BYTES:]) if len(raw) % _ENTRY_BYTES == _HEADER_BYTES else ()
    )
    return tuple((named[tag], number, allowed) for tag, allowed, number in entries if tag in named)


def explain(look: Look, opened: Opened) -> tuple[str, Fix]:
    """Return why a node could not be opened and what to do, from what this process can see."""
    if opened.error == errno.EPERM:
        return (
            "the device rules of this container's or job's cgroup forbid access, not its permission bits",
            Fix(
                "start the container with the device, or request a GPU from the batch system",
                (f"docker run --device {opened.node} ...", "srun --gres=gpu:1 ..."),
            ),
        )
    if opened.error not in (errno.EACCES, errno.ENOENT):
        return (
            "the driver rejects it",
            Fix("read the kernel log", as_root(look, "dmesg | grep -iE 'i915|xe ' | tail -30")),
        )
    if _may(opened) and _enforcing(look):
        return (
            "owner and group allow it, but SELinux is enforcing",
            Fix(
                "allow containers to use devices, or start this one without the SELinux label",
                (
                    *as_root(look, "ausearch -m avc -ts recent", "setsebool -P container_use_devices on"),
                    "podman run --security-opt label=disable ...",
                ),
            ),
        )
    if _may(opened):
        return (
            "owner and group allow it, but a parent folder, the mount (nodev) or a security module does not",
            Fix("check its parent folders and the mount", (f"namei -l {opened.node}", "findmnt -T /dev/dri")),
        )
    return _by_group(look, opened)


def _may(opened: Opened) -> bool:
    """Whether the permission bits allow it to this process."""
    if os.geteuid() == opened.uid:
        return _allows(opened.mode, _OWNER)
    if opened.gid in groups_of_process():
        return _allows(opened.mode, _GROUP)
    return _allows(opened.mode, _OTHERS)


def _by_group(look: Look, opened: Opened) -> tuple[str, Fix]:
    user = _user_name()
    who = f"it belongs to the group {opened.group} (gid {opened.gid}, mode {opened.mode & 0o777:04o})"
    if opened.gid == _NOBODY:
        return (
            f"its group is not mapped into this user namespace ({who}); rootless containers drop groups",
            Fix(
                "keep the groups of the user who starts the container (needs crun)",
                ("podman run --group-add keep-groups --device /dev/dri ...",),
            ),
        )
    if contained(look):
        return (
            f"{who}, but the process in this container is not in it; group names differ on host and image",
            Fix(
                "start the container with the number of the group",
                (
                    f"docker run --device /dev/dri --group-add {opened.gid} ...",
                    "podman run --device /dev/dri --group-add keep-groups ...",
                    f"# Kubernetes: securityContext.supplementalGroups: [{opened.gid}]",
                ),
            ),
        )
    if not _allows(opened.mode, _GROUP):
        return (
            f"{who}, and that group has no read and write permission",
            Fix("restore the usual mode of the node", as_root(look, "udevadm trigger --subsystem-match=drm")),
        )
    if _member(user, opened.gid):
        return (
            f"{who}; {user} is a member, but this login session is older",
            Fix("log in again, or start a shell with that group", (f"newgrp {opened.group}",)),
        )
    return (
        f"{who}, and {user} is not a member",
        Fix(
            f"add {user} to the group {opened.group}, then log in again",
            as_root(look, f"usermod -aG {opened.group} {user}"),
        ),
    )


def _allows(mode: int, bits: int) -> bool:
    return mode & bits == bits


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _member(user: str, gid: int) -> bool:
    """Whether the group database lists the user, which takes effect at the next login."""
    try:
        return user in grp.getgrgid(gid).gr_mem or pwd.getpwnam(user).pw_gid == gid
    except KeyError:
        return False


def _enforcing(look: Look) -> bool:
    return read_text(look.path("/sys/fs/selinux/enforce")) == "1"

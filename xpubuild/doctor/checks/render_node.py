"""The render node of each GPU: whether it exists, and whether this user can open it; if not, why."""

from __future__ import annotations

import errno
import grp
import os
import pwd
from pathlib import Path
from typing import Any

from xpubuild.doctor.fixes import as_root
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, commas, finding, ok, skip, todo, warn
from xpubuild.doctor.probes.machine import bound_usable, contained, listed, wsl
from xpubuild.frozen import frozen
from xpubuild.machine.readers import exists, read_text

#: What the kernel shows for an owner that the user namespace does not map (proc(5), overflowgid).
_NOBODY = 65534
_OWNER, _GROUP, _OTHERS = 0o600, 0o060, 0o006  # read and write


@check("gpu.render_node", profiles=RUN, needs="gpu.kernel_driver")
def gpu_render_node(look: Look) -> Outcome:
    """Each GPU has a render node in /dev/dri.

    The kernel driver creates one render node for each GPU (`/sys/class/drm/renderD*`), and udev or the
    container engine provides it as `/dev/dri/renderD*`. If it is missing in sysfs, the driver did not
    initialise the device: see the kernel log. If it is in sysfs but not in /dev, the container was
    started without the device.
    """
    gpus = bound_usable(look)
    if not gpus:
        return ok("WSL2: /dev/dxg") if wsl(look) else skip("no GPU with a kernel driver")
    nodes = {gpu.pci_address: gpu.render_node for gpu in gpus}
    without = [gpu for gpu in gpus if gpu.render_node is None]
    absent = [gpu for gpu in gpus if gpu.render_node and not exists(look.path(gpu.render_node))]
    if absent and not look.live:
        why = "device nodes are created when a system starts; a recorded file tree has none"
        return skip(why, nodes=nodes)
    if without:
        driver = without[0].kernel_driver
        detail = f"{driver} is bound, but created no render node: {listed(without)}"
        line = f"dmesg | grep -iE '{driver}|{without[0].pci_address}' | tail -30"
        summary = "find the reason in the kernel log; nomodeset and missing firmware are the usual ones"
        fix = todo(summary, *as_root(look, line))
    elif absent:
        node = str(absent[0].render_node)
        detail = f"the kernel has {node}, but it is missing in /dev/dri: {listed(absent)}"
        fix = _absent(look, node)
    else:
        return ok(commas(f"{address}: {node}" for address, node in nodes.items()), nodes=nodes)
    if rest := [gpu for gpu in gpus if gpu not in (*without, *absent)]:
        return warn(f"{detail}; programs can only use {listed(rest)}", fix, nodes=nodes)
    return finding(detail, fix, nodes=nodes)


def _absent(look: Look, node: str) -> Fix:
    if contained(look):
        return todo(
            "start the container with the devices",
            "docker run --device /dev/dri --group-add $(stat -c %g /dev/dri/renderD128) ...",
            "podman run --device /dev/dri --group-add keep-groups ...",
            "apptainer exec --bind /dev/dri ...",
        )
    lines = as_root(look, "udevadm trigger --subsystem-match=drm", "ls -l /dev/dri")
    return todo(f"make udev create {node}", *lines)


@check("gpu.render_access", profiles=RUN, needs="gpu.render_node", live=True)
def gpu_render_access(look: Look) -> Outcome:
    """This user can open the render nodes.

    Opens each render node for reading and writing, as the compute runtime does. If the runtime
    cannot open a node, it skips the node silently: programs find fewer devices, or none.

    If a node cannot be opened, the check searches for the reason: the group of the node and whether
    this user and this login session are in it, a group id without a name in a container, rootless
    Podman that drops groups, SELinux, or the device rules of a cgroup.
    """
    nodes = [gpu.render_node for gpu in bound_usable(look) if gpu.render_node]
    nodes = ["/dev/dxg"] if wsl(look) else nodes
    if not nodes:
        return skip("no render node")
    tried = [open_node(Path(node)) for node in nodes]
    evidence = {item.node: item.to_json() for item in tried}
    failed = [item for item in tried if item.error]
    if not failed:
        return ok(f"opened {commas(nodes)}", nodes=evidence)
    first = failed[0]
    why, fix = explain(look, first)
    name = f"{errno.errorcode.get(first.error, first.error)}, {os.strerror(first.error)}"
    detail = f"{first.node} cannot be opened ({name}): {why}"
    if len(failed) == len(tried):
        more = f"; the same for {len(failed) - 1} more" if len(failed) > 1 else ""
        return finding(detail + more, fix, nodes=evidence)
    share = f"{len(tried) - len(failed)} of {len(tried)} render nodes can be opened"
    if all(item.error == errno.EPERM for item in failed):
        # A batch system that gives a job some of the GPUs does it like this.
        return ok(f"{share}; the device rules of the cgroup block the others", nodes=evidence)
    opened = {item.node for item in tried if not item.error}
    rest = listed(gpu for gpu in bound_usable(look) if gpu.render_node in opened)
    return warn(f"{share}; {detail}; programs can only use {rest}", fix, nodes=evidence)


@frozen
class Opened:
    """One attempt to open a node; ``error`` is the errno or 0."""

    node: str
    error: int
    mode: int = 0
    uid: int = 0
    gid: int = 0

    @property
    def group(self) -> str:
        """The name of the node's group, or its number if it has no name."""
        try:
            return grp.getgrgid(self.gid).gr_name
        except KeyError:
            return str(self.gid)

    def to_json(self) -> dict[str, Any]:
        """Return what was seen, for the evidence."""
        error = errno.errorcode.get(self.error, "") if self.error else ""
        mode = f"{self.mode & 0o7777:04o}"
        seen = {"opened": not self.error, "error": error, "mode": mode}
        return {**seen, "owner": self.uid, "group": self.group, "gid": self.gid}


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
    return Opened(str(path), number, info.st_mode, info.st_uid, info.st_gid)


def groups_of_process() -> frozenset[int]:
    """Return the groups that this process really has."""
    return frozenset((os.getegid(), *os.getgroups()))


def explain(look: Look, opened: Opened) -> tuple[str, Fix]:
    """Return why a node could not be opened and what to do, from what this process can see."""
    user, group, gid, mode = _user_name(), opened.group, opened.gid, opened.mode
    bits = _GROUP if gid in groups_of_process() else _OTHERS
    may = _allows(mode, _OWNER if os.geteuid() == opened.uid else bits)
    selinux = read_text(look.path("/sys/fs/selinux/enforce")) == "1"
    who = f"it belongs to the group {group} (gid {gid}, mode {mode & 0o777:04o})"
    #: What holds, why the node then cannot be opened, what to do and to type; the first row counts.
    rows: tuple[tuple[bool, str, str, tuple[str, ...]], ...] = (
        (opened.error == errno.EPERM,
         "the device rules of this container's or job's cgroup forbid access, not its permission bits",
         "start the container with the device, or request a GPU from the batch system",
         (f"docker run --device {opened.node} ...", "srun --gres=gpu:1 ...")),
        (opened.error not in (errno.EACCES, errno.ENOENT),
         "the driver rejects it", "read the kernel log",
         as_root(look, "dmesg | grep -iE 'i915|xe ' | tail -30")),
        (may and selinux, "owner and group allow it, but SELinux is enforcing",
         "allow containers to use devices, or start this one without the SELinux label",
         (*as_root(look, "ausearch -m avc -ts recent", "setsebool -P container_use_devices on"),
          "podman run --security-opt label=disable ...")),
        (may,
         "owner and group allow it, but a parent folder, the mount (nodev) or a security module does not",
         "check its parent folders and the mount", (f"namei -l {opened.node}", "findmnt -T /dev/dri")),
        (gid == _NOBODY,
         f"its group is not mapped into this user namespace ({who}); rootless containers drop groups",
         "keep the groups of the user who starts the container (needs crun)",
         ("podman run --group-add keep-groups --device /dev/dri ...",)),
        (contained(look),
         f"{who}, but the process in this container is not in it; group names differ on host and image",
         "start the container with the number of the group",
         (f"docker run --device /dev/dri --group-add {gid} ...",
          "podman run --device /dev/dri --group-add keep-groups ...",
          f"# Kubernetes: securityContext.supplementalGroups: [{gid}]")),
        (not _allows(mode, _GROUP), f"{who}, and that group has no read and write permission",
         "restore the usual mode of the node", as_root(look, "udevadm trigger --subsystem-match=drm")),
        (_member(user, gid), f"{who}; {user} is a member, but this login session is older",
         "log in again, or start a shell with that group", (f"newgrp {group}",)),
        (True, f"{who}, and {user} is not a member",
         f"add {user} to the group {group}, then log in again",
         as_root(look, f"usermod -aG {group} {user}")),
    )  # fmt: skip
    return next((why, todo(summary, *lines)) for holds, why, summary, lines in rows if holds)


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

"""The render node of each GPU: whether it exists, and whether this user can open it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from xpubuild.doctor.fixes import as_root
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok, skip, warn
from xpubuild.doctor.probes.access import Opened, explain, open_node
from xpubuild.doctor.probes.machine import bound_usable, contained, listed, wsl
from xpubuild.machine.readers import exists

_FAMILIES = ("D-device-node-access",)


@check("gpu.render_node", profiles=RUN, needs=("gpu.kernel_driver",), families=_FAMILIES)
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
        return skip(
            "device nodes are created when a system starts; a recorded file tree has none", nodes=nodes
        )
    if without:
        detail = f"{without[0].kernel_driver} is bound, but created no render node: {listed(without)}"
        fix = Fix(
            "find the reason in the kernel log; nomodeset and missing firmware are the usual ones",
            as_root(
                look, f"dmesg | grep -iE '{without[0].kernel_driver}|{without[0].pci_address}' | tail -30"
            ),
        )
    elif absent:
        detail = f"the kernel has {absent[0].render_node}, but it is missing in /dev/dri: {listed(absent)}"
        fix = _absent(look, str(absent[0].render_node))
    else:
        return ok(", ".join(f"{gpu.pci_address}: {gpu.render_node}" for gpu in gpus), nodes=nodes)
    if rest := [gpu for gpu in gpus if gpu not in (*without, *absent)]:
        return warn(f"{detail}; programs can only use {listed(rest)}", fix, nodes=nodes)
    return finding(detail, fix, nodes=nodes)


def _absent(look: Look, node: str) -> Fix:
    if contained(look):
        return Fix(
            "start the container with the devices",
            (
                "docker run --device /dev/dri --group-add $(stat -c %g /dev/dri/renderD128) ...",
                "podman run --device /dev/dri --group-add keep-groups ...",
                "apptainer exec --bind /dev/dri ...",
            ),
        )
    return Fix(
        f"make udev create {node}", as_root(look, "udevadm trigger --subsystem-match=drm", "ls -l /dev/dri")
    )


@check("gpu.render_access", profiles=RUN, needs=("gpu.render_node",), live=True, families=_FAMILIES)
def gpu_render_access(look: Look) -> Outcome:
    """This user can open the render nodes.

    Opens each render node for reading and writing, as the compute runtime does. If the runtime
    cannot open a node, it skips the node silently: programs find fewer devices, or none.

    If a node cannot be opened, the check searches for the reason: the group of the node and whether
    this user and this login session are in it, a group id without a name in a container, rootless
    Podman that drops groups, an access control list, SELinux, or the device rules of a cgroup. Access
    that is granted only to local logins is a warning, because SSH sessions and batch jobs do not have
    it.
    """
    nodes = [gpu.render_node for gpu in bound_usable(look) if gpu.render_node]
    if wsl(look):
        nodes = ["/dev/dxg"]
    if not nodes:
        return skip("no render node")
    tried = [open_node(Path(node)) for node in nodes]
    evidence = {item.node: item.to_json() for item in tried}
    failed = [item for item in tried if item.error]
    if failed:
        return _closed(look, tried, failed, evidence)
    seat = next((item for item in tried if item.by_list_only), None)
    if seat is not None:
        return warn(
            f"{seat.node} is accessible to this user only through the access control list of a local"
            " login; an SSH"
            " session, a service or a batch job will have no access",
            Fix(
                "add this user to the node's group, then log in again",
                as_root(look, f"usermod -aG {seat.group} $USER"),
            ),
            nodes=evidence,
        )
    return ok(f"opened {', '.join(item.node for item in tried)}", nodes=evidence)


def _closed(
    look: Look, tried: list[Opened], failed: list[Opened], evidence: dict[str, dict[str, Any]]
) -> Outcome:
    first = failed[0]
    why, fix = explain(look, first)
    detail = f"{first.node} cannot be opened ({_error(first.error)}): {why}"
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


def _error(number: int) -> str:
    return f"{errno.errorcode.get(number, number)}, {os.strerror(number)}"

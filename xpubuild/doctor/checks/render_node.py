"""The render node of each GPU: whether it exists, and whether this user can open it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from xpubuild.doctor.context import CheckContext
from xpubuild.doctor.fixes import as_root
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.doctor.probes.access import Opened, explain, open_node
from xpubuild.doctor.probes.machine import RUN, bound_usable, contained, listed, wsl
from xpubuild.machine.readers import exists

_FAMILIES = ("D-device-node-access",)


class RenderNode(Check):
    """Every GPU has a render node in /dev/dri."""

    id = "gpu.render_node"
    title = "Each GPU has a render node in /dev/dri"
    needs = ("gpu.kernel_driver",)
    profiles = RUN
    families = _FAMILIES
    explanation = """
    The kernel driver creates one render node for each GPU (`/sys/class/drm/renderD*`), and udev or the
    container engine provides it as `/dev/dri/renderD*`. If it is missing in sysfs, the driver did not
    initialise the device: see the kernel log. If it is in sysfs but not in /dev, the container was
    started without the device.
    """

    def run(self, context: CheckContext) -> Outcome:
        """Compare sysfs with /dev/dri."""
        gpus = bound_usable(context)
        if not gpus:
            return self.ok("WSL2: /dev/dxg") if wsl(context) else self.skip("no GPU with a kernel driver")
        nodes = {gpu.pci_address: gpu.render_node for gpu in gpus}
        without = [gpu for gpu in gpus if gpu.render_node is None]
        absent = [gpu for gpu in gpus if gpu.render_node and not exists(context.path(gpu.render_node))]
        if absent and not context.live:
            return self.skip(
                "device nodes are created when a system starts; a recorded file tree has none", nodes=nodes
            )
        if without:
            detail = f"{without[0].kernel_driver} is bound, but created no render node: {listed(without)}"
            fix = Fix(
                "find the reason in the kernel log; nomodeset and missing firmware are the usual ones",
                as_root(
                    context,
                    f"dmesg | grep -iE '{without[0].kernel_driver}|{without[0].pci_address}' | tail -30",
                ),
            )
        elif absent:
            detail = (
                f"the kernel has {absent[0].render_node}, but it is missing in /dev/dri: {listed(absent)}"
            )
            fix = _absent(context, str(absent[0].render_node))
        else:
            return self.ok(", ".join(f"{gpu.pci_address}: {gpu.render_node}" for gpu in gpus), nodes=nodes)
        if rest := [gpu for gpu in gpus if gpu not in (*without, *absent)]:
            return self.warn(f"{detail}; programs can only use {listed(rest)}", fix, nodes=nodes)
        return self.found(detail, fix, nodes=nodes)


def _absent(context: CheckContext, node: str) -> Fix:
    if contained(context):
        return Fix(
            "start the container with the devices",
            (
                "docker run --device /dev/dri --group-add $(stat -c %g /dev/dri/renderD128) ...",
                "podman run --device /dev/dri --group-add keep-groups ...",
                "apptainer exec --bind /dev/dri ...",
            ),
        )
    return Fix(
        f"make udev create {node}",
        as_root(context, "udevadm trigger --subsystem-match=drm", "ls -l /dev/dri"),
    )


class RenderAccess(Check):
    """This user can open every render node for reading and writing."""

    id = "gpu.render_access"
    title = "This user can open the render nodes"
    needs = ("gpu.render_node",)
    profiles = RUN
    live = True
    families = _FAMILIES
    explanation = """
    Opens each render node for reading and writing, as the compute runtime does. If the runtime
    cannot open a node, it skips the node silently: programs find fewer devices, or none.

    If a node cannot be opened, the check searches for the reason: the group of the node and whether
    this user and this login session are in it, a group id without a name in a container, rootless
    Podman that drops groups, an access control list, SELinux, or the device rules of a cgroup. Access
    that is granted only to local logins is a warning, because SSH sessions and batch jobs do not have
    it.
    """

    def run(self, context: CheckContext) -> Outcome:
        """Open every node."""
        nodes = [gpu.render_node for gpu in bound_usable(context) if gpu.render_node]
        if wsl(context):
            nodes = ["/dev/dxg"]
        if not nodes:
            return self.skip("no render node")
        tried = [open_node(Path(node)) for node in nodes]
        evidence = {item.node: item.to_json() for item in tried}
        failed = [item for item in tried if item.error]
        if failed:
            return self._closed(context, tried, failed, evidence)
        seat = next((item for item in tried if item.by_list_only), None)
        if seat is not None:
            return self.warn(
                f"{seat.node} is accessible to this user only through the access control list of a local"
                " login; an SSH"
                " session, a service or a batch job will have no access",
                Fix(
                    "add this user to the node's group, then log in again",
                    as_root(context, f"usermod -aG {seat.group} $USER"),
                ),
                nodes=evidence,
            )
        return self.ok(f"opened {', '.join(item.node for item in tried)}", nodes=evidence)

    def _closed(
        self,
        context: CheckContext,
        tried: list[Opened],
        failed: list[Opened],
        evidence: dict[str, dict[str, Any]],
    ) -> Outcome:
        first = failed[0]
        why, fix = explain(context, first)
        detail = f"{first.node} cannot be opened ({_error(first.error)}): {why}"
        if len(failed) == len(tried):
            more = f"; the same for {len(failed) - 1} more" if len(failed) > 1 else ""
            return self.found(detail + more, fix, nodes=evidence)
        share = f"{len(tried) - len(failed)} of {len(tried)} render nodes can be opened"
        if all(item.error == errno.EPERM for item in failed):
            # A batch system that gives a job some of the GPUs does it like this.
            return self.ok(f"{share}; the device rules of the cgroup block the others", nodes=evidence)
        opened = {item.node for item in tried if not item.error}
        rest = listed(gpu for gpu in bound_usable(context) if gpu.render_node in opened)
        return self.warn(f"{share}; {detail}; programs can only use {rest}", fix, nodes=evidence)


def _error(number: int) -> str:
    return f"{errno.errorcode.get(number, number)}, {os.strerror(number)}"

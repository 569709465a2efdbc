"""Simulated hosts: data that becomes a machine, or a recorded tree, that xpubuild then looks at.

A ``Host`` says what is there: GPUs (``Gpu``), the Level Zero stack (``LevelZero``), packages, files, the
user, the environment, and which checks of ``doctor`` it makes fail (``expect``) or warn (``warns``).

* ``simulate(host, scratch)`` returns a command prefix and an environment. What is run with them, children
  included, is in a mount namespace and root of its own: /sys is the host's, /dev has its render nodes (nodes
  of /dev/null with the owner and mode of the host), files are laid over those of this machine. Needs root.
  Nothing is preloaded; opening a node really succeeds or fails, the loader is the real one, and it loads
  ``fake_ze/fake_driver.c`` as libze_intel_gpu.so.1.
* ``record(host, root)`` writes the same tree into a folder for ``--root``.

To add a host, put one into a list of a test module, or derive it: ``healthy.but(name=..., files={...})``.
``files`` maps absolute paths to a text, bytes, a ``Path`` to copy, a ``Link``, or None to hide what is there.
A text that begins with "#!" becomes executable. /proc files are bound one by one and must exist on this
machine; files below /sys/fs replace the whole of it. ``mounts`` are small file systems: path -> options.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.fake_ze.builder import SONAME, fake_driver
from support.ocloc_standin import OCLOC

ENTER = Path(__file__).with_name("enter_host.py")
RENDER_GID = 993
VIDEO_GID = 44
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
_GIB = 1 << 30
#: Of the caller's shell: a host has only what it says.
_DROPPED_PREFIXES = ("ZE_", "ZES_", "SYCL_", "ONEAPI_", "UR_", "NEO", "SLURM_", "PBS_", "LD_", "OCL_", "PMI_")


@dataclass(frozen=True)
class Link:
    target: str


@dataclass(frozen=True)
class Node:
    mode: int = 0o660
    uid: int = 0
    gid: int = RENDER_GID


Content = str | bytes | Path | Link | Node | None


@dataclass(frozen=True)
class User:
    """Who runs the command; the default is root."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class Gpu:
    """A display controller; ``link``, ``bridges`` (nearest first): speed, width, best speed, best width."""

    address: str = "0000:29:00.0"
    device: str = "0x0bd5"
    name: str = "Intel(R) Data Center GPU Max 1550"
    pci_class: str = "0x038000"
    driver: str | None = "i915"
    number: int | None = 128
    node: Node | None = Node()
    tiles: int = 2
    tile_bytes: int = 64 * _GIB
    numa: int = 0
    link: tuple[str, str, str, str] = ("32.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16")
    bridges: tuple[tuple[str, str, str, str], ...] = (("32.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"),)
    bar_bytes: int = 128 * _GIB
    virtual: bool = False
    integrated: bool = False

    def paths(self) -> dict[str, Content]:
        parents = [f"0000:{0x80 + index:02x}:01.0" for index in range(len(self.bridges))]
        top = f"/sys/devices/pci0000:{int(self.address[5:7], 16) & 0xF0:02x}/" + self.address.replace(
            ":", "_"
        )
        place = "/".join((top, *reversed(parents), self.address))
        found: dict[str, Content] = {
            **_attributes(place, self.link, self.pci_class),
            f"{place}/vendor": "0x8086\n",
            f"{place}/device": f"{self.device}\n",
            f"{place}/numa_node": f"{self.numa}\n",
            f"{place}/resource": f"{0:#018x} {0xFFFFFF:#018x} 0x{0x140204:016x}\n{0:#018x} {0:#018x}"
            f" {0:#018x}\n{0:#018x} {self.bar_bytes - 1:#018x} 0x{0x14220C:016x}\n",
            f"/sys/bus/pci/devices/{self.address}": Link(place),
        }
        for index, link in enumerate(self.bridges):
            folder = "/".join((top, *reversed(parents[index:])))
            found.update(_attributes(folder, link, "0x060400"))
            found[f"{folder}/vendor"] = "0x8086\n"
        if self.virtual:
            found[f"{place}/physfn"] = Link("../0000:00:00.0")
        if self.driver is not None:
            found.update(self._bound(place))
        return found

    def _bound(self, place: str) -> dict[str, Content]:
        found: dict[str, Content] = {
            f"{place}/driver": Link(f"/sys/bus/pci/drivers/{self.driver}"),
            f"/sys/bus/pci/drivers/{self.driver}/bind": "",
            f"/sys/module/{self.driver}/refcnt": "1\n",
        }
        if self.driver == "i915":  # Intel's own, not the kernel's
            found["/sys/module/i915/version"] = (
                "backported to 5.15 from (8c20a57) using backports I915_24.2\n"
            )
        if self.number is None or self.driver not in ("i915", "xe"):
            return found
        card = f"card{self.number - 128}"
        for tile in range(self.tiles):
            inside = f"drm/{card}/gt/gt{tile}" if self.driver == "i915" else f"tile{tile}"
            found[f"{place}/{inside}/id"] = f"{tile}\n"
        node = f"renderD{self.number}"
        for name, minor in ((card, self.number - 128), (node, self.number)):
            found[f"{place}/drm/{name}/dev"] = f"226:{minor}\n"
            found[f"/sys/class/drm/{name}"] = Link(f"{place}/drm/{name}")
        if self.node is not None:
            found[f"/dev/dri/{node}"] = self.node
            found[f"/dev/dri/{card}"] = Node(gid=VIDEO_GID)
        return found

    def fake_ze(self) -> str:
        domain, bus, rest = self.address.split(":")
        device, function = rest.split(".")
        node = f"/dev/dri/renderD{self.number}" if self.number is not None else "/dev/dri/none"
        numbers = (f"0x{part}" for part in (domain, bus, device, function))
        return (
            f"device {self.device} {' '.join(numbers)} {self.tiles} {self.tile_bytes} {int(self.integrated)}"
            f" {node} {self.name}\n"
        )


def _attributes(folder: str, link: tuple[str, str, str, str], pci_class: str) -> dict[str, Content]:
    names = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    found: dict[str, Content] = {
        f"{folder}/{name}": f"{value}\n" for name, value in zip(names, link, strict=True)
    }
    return {**found, f"{folder}/class": f"{pci_class}\n"}


@dataclass(frozen=True)
class LevelZero:
    """The loader (this machine's own, or hidden) and the stand-in driver behind it.

    ``act`` is crash, abort or hang and where, as "crash init"; ``sees`` the PCI addresses that it knows
    of, by default all of the host's GPUs that i915 or xe is bound to.
    """

    loader: bool = True
    driver: bool = True
    api: str = "1.3"
    act: str = ""
    sees: tuple[str, ...] | None = None


LTS = {
    "intel-level-zero-gpu": "1.3.27642.40-803~22.04",
    "level-zero": "1.14.0-744~22.04",
    "intel-opencl-icd": "23.43.27642.40-803~22.04",
}
LTS2 = {
    "libze-intel-gpu1": "25.18.33578.38-1146~24.04",
    "libze1": "1.21.9.0-1136~24.04",
    "intel-opencl-icd": "25.18.33578.38-1146~24.04",
    "intel-ocloc": "25.18.33578.38-1146~24.04",
}
UBUNTU = (
    'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n'
    "VERSION_CODENAME=jammy\n"
)
PASSWD = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n"
GROUPS = f"root:x:0:\nvideo:x:{VIDEO_GID}:\nrender:x:{RENDER_GID}:\nada:x:1000:\n"
DEVELOPMENT: dict[str, Content] = {
    "/usr/include/level_zero/ze_api.h": "/* stand-in */\n",
    "/usr/include/CL/cl.h": "/* stand-in */\n",
    "/usr/bin/ocloc": OCLOC,
}
OPENCL: dict[str, Content] = {
    "/etc/OpenCL/vendors/intel.icd": "/usr/lib/x86_64-linux-gnu/intel-opencl/libigdrcl.so\n",
    f"{LIBRARIES}/intel-opencl/libigdrcl.so": "stand-in\n",
}


@dataclass(frozen=True)
class Host:
    """A machine, and the checks that must fail (``expect``) or warn (``warns``) on it, and no others."""

    name: str
    expect: frozenset[str] = frozenset()
    warns: frozenset[str] = frozenset()
    pci: tuple[Gpu, ...] = ()
    level_zero: LevelZero = LevelZero()
    packages: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Content] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    user: User = User()
    kernel: str = "5.15.0-91-generic"
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    def but(self, **changes: Any) -> Host:
        """Return the host with other values; mappings (files, environ, packages) are added to."""
        for key in ("files", "environ", "mounts"):
            if key in changes:
                changes[key] = {**getattr(self, key), **changes[key]}
        for key in ("expect", "warns"):
            if key in changes:
                changes[key] = frozenset(changes[key])
        return dataclasses.replace(self, **changes)

    def tree(self) -> dict[str, Content]:
        found: dict[str, Content] = {
            "/etc/os-release": UBUNTU,
            "/etc/passwd": PASSWD,
            "/etc/group": GROUPS,
            "/var/lib/dpkg/status": "\n".join(
                f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n"
                for name, version in self.packages.items()
            ),
            "/proc/sys/kernel/osrelease": f"{self.kernel}\n",
            "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro\n",
        }
        for gpu in self.pci:
            found.update(gpu.paths())
        if self.level_zero.driver:
            found[f"{LIBRARIES}/{SONAME}"] = fake_driver()
        if not self.level_zero.loader:
            found.update(dict.fromkeys(_loaders()))
        return {**found, **self.files}

    def fake_ze(self) -> str:
        zero = self.level_zero
        bound = [gpu.address for gpu in self.pci if gpu.driver in ("i915", "xe")]
        sees = bound if zero.sees is None else zero.sees
        head = f"api {zero.api.replace('.', ' ')}\n" + (f"act {zero.act}\n" if zero.act else "")
        return head + "".join(gpu.fake_ze() for gpu in self.pci if gpu.address in sees)


def _loaders() -> list[str]:
    return [str(path) for path in sorted(Path(LIBRARIES).glob("libze_loader.so*"))]


def _of_this_machine() -> list[str]:
    """Return what the machine of the tests has and no host: a container's mark, a driver with its ocloc."""
    drivers = (str(path) for path in Path("/usr/lib").glob("*/libze_intel_gpu.so*"))
    return ["/.dockerenv", "/etc/OpenCL/vendors/intel.icd", "/usr/bin/ocloc", *drivers]


def simulate(host: Host, scratch: Path) -> tuple[list[str], dict[str, str]]:
    """Return a command prefix and an environment that run a program on this host; ``scratch`` is kept."""
    files: list[str] = []
    tops: dict[str, Any] = {"dev": [], "proc": {}, "hidden": [], "files": files}
    for path, content in {**dict.fromkeys(_of_this_machine()), **host.tree()}.items():
        top = path.split("/")[1]
        if isinstance(content, Node):
            tops["dev"].append([path, content.mode, content.uid, content.gid])
            continue
        if top not in ("sys", "proc", "dev"):
            files.append(path)
        if content is None:
            tops["hidden"].append(path)
            continue
        _write(scratch / "upper" / path.lstrip("/"), content)
        if top == "proc":
            tops["proc"][path] = str(scratch / "upper" / path.lstrip("/"))
    (scratch / "fake-ze").write_text(host.fake_ze())
    tops["upper"] = str(scratch / "upper")
    tops["user"] = dataclasses.asdict(host.user)
    (scratch / "host.json").write_text(json.dumps({**tops, "mounts": dict(host.mounts)}))
    prefix = ["unshare", "--mount", "--propagation", "private", "--", sys.executable, "-I", "-S", str(ENTER)]
    environ = {k: v for k, v in os.environ.items() if not k.startswith(_DROPPED_PREFIXES)}
    environ.update({"FAKE_ZE": str(scratch / "fake-ze"), **host.environ})
    return [*prefix, str(scratch / "host.json"), "--"], environ


def record(host: Host, root: Path) -> Path:
    """Write the host as a tree of files below ``root``, for ``--root``; device nodes are empty files."""
    for path, content in host.tree().items():
        if content is not None:
            _write(root / path.lstrip("/"), _relative(path, content))
    return root


def _relative(path: str, content: Content) -> Content:
    if isinstance(content, Link) and content.target.startswith("/"):
        return Link(os.path.relpath(content.target, Path(path).parent))
    return content


def _write(path: Path, content: Content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Link):
        path.symlink_to(content.target)
    elif isinstance(content, Path):
        shutil.copyfile(content, path)
        path.chmod(0o755)
    elif isinstance(content, Node):
        path.write_bytes(b"")
    elif content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o755 if str(content).startswith("#!") else 0o644)

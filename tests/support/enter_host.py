"""Runs a command on a simulated host: ``enter_host.py SPEC.json -- argv...`` in a mount namespace of its own.

Standard library only, and mount(2) by ctypes: a test starts this many times. See ``hosts.py``.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_BIND, _REC = 4096, 16384
_SYS_KEPT = ("kernel", "devices/system", "fs")
_REPLACED = ("sys", "proc", "dev")
_DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}


def _mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    if _LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind or 'bind'} on {target}: {os.strerror(number)}")


def _system(spec: dict[str, Any], new: Path) -> None:
    """Replace /sys; what is not about devices stays this machine's."""
    made = Path(spec["upper"]) / "sys"
    shutil.copytree(made, new, symlinks=True, dirs_exist_ok=True) if made.is_dir() else new.mkdir()
    for name in ("bus/pci/devices", "class/drm"):
        (new / name).mkdir(parents=True, exist_ok=True)
    for name in _SYS_KEPT:
        if Path("/sys", name).is_dir() and not (new / name).exists():
            (new / name).mkdir(parents=True)
            _mount(f"/sys/{name}", str(new / name), flags=_BIND | _REC)
    _mount(str(new), "/sys", flags=_BIND | _REC)


def _devices(spec: dict[str, Any], new: Path) -> None:
    """Replace /dev: the usual nodes, terminals and shared memory, and the host's own nodes."""
    new.mkdir()
    for name, minor in _DEVICES.items():
        _node(new / name, 0o666, minor)
    for name in ("pts", "shm"):
        if Path("/dev", name).is_dir():
            (new / name).mkdir()
            _mount(f"/dev/{name}", str(new / name), flags=_BIND | _REC)
    (new / "fd").symlink_to("/proc/self/fd")
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        (new / name).symlink_to(f"/proc/self/fd/{number}")
    (new / "ptmx").symlink_to("pts/ptmx")
    for path, mode, uid, gid in spec["dev"]:
        place = new / Path(path).relative_to("/dev")
        place.parent.mkdir(parents=True, exist_ok=True)
        _node(place, mode, _DEVICES["null"])
        os.chown(place, uid, gid)
    _mount(str(new), "/dev", flags=_BIND | _REC)


def _node(path: Path, mode: int, minor: int) -> None:
    os.mknod(path, stat.S_IFCHR | mode, os.makedev(1, minor))
    path.chmod(mode)


def _overlay(spec: dict[str, Any], lower: str, target: Path, area: Path) -> None:
    """Lay files over a folder; hidden ones become whiteouts, which overlayfs takes for "not there"."""
    upper, work = area / f"upper{lower.replace('/', '-')}", area / f"work{lower.replace('/', '-')}"
    work.mkdir()
    upper.mkdir()
    made = Path(spec["upper"]) / lower.lstrip("/")
    for folder in made.iterdir() if made.is_dir() else ():
        if lower != "/" or folder.name not in _REPLACED:
            shutil.copytree(folder, upper / folder.name, symlinks=True) if folder.is_dir() else shutil.copy2(
                folder, upper / folder.name
            )
    for path in spec["hidden"]:
        place = upper / os.path.relpath(path, lower)
        if _is_below(path, lower) and (Path(path).exists() or Path(path).is_symlink()):
            place.parent.mkdir(parents=True, exist_ok=True)
            os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))
    upper.chmod(stat.S_IMODE(Path(lower).stat().st_mode))
    _mount("overlay", str(target), "overlay", data=f"lowerdir={lower},upperdir={upper},workdir={work}")


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _mounted() -> list[str]:
    """Return the mount points of this namespace that are not below another one than the root."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines()]
    points = sorted({point for point in points if point != "/" and "\\" not in point})
    return [point for point in points if not any(_is_below(point, other) for other in points)]


def _root(spec: dict[str, Any], area: Path) -> Path:
    """Make a root with the host's files over this machine's, whose other mounts are bound into it."""
    root = area / "root"
    root.mkdir()
    _overlay(spec, "/", root, area)
    for point in _mounted():
        target = root / point.lstrip("/")
        if not Path(point).is_dir():
            if not any(path == point for path in spec["files"]):
                _mount(point, str(target), flags=_BIND)
        elif point not in ("/sys", "/dev", "/proc") and any(_is_below(path, point) for path in spec["files"]):
            _overlay(spec, point, target, area)
        else:
            _mount(point, str(target), flags=_BIND | _REC)
    return root


def main() -> None:
    """Make the host and become the command."""
    file, separator, *argv = sys.argv[1:]
    if separator != "--":
        raise SystemExit("usage: enter_host.py SPEC.json -- argv...")
    spec = json.loads(Path(file).read_text("utf-8"))
    area = Path(file).with_name("area")
    area.mkdir(exist_ok=True)
    _mount("area", str(area), "tmpfs", data="mode=755")
    _system(spec, area / "sys")
    _devices(spec, area / "dev")
    for path, source in spec["proc"].items():
        _mount(source, path, flags=_BIND)
    folder = Path.cwd()
    os.chroot(_root(spec, area))
    os.chdir(folder)
    for path, options in spec["mounts"].items():
        Path(path).mkdir(parents=True, exist_ok=True)
        _mount("small", path, "tmpfs", data=options)
    user = spec["user"]
    if user["uid"] or user["groups"]:
        groups = ",".join(map(str, user["groups"]))
        # May read every file, so that an interpreter below /root can be started, and write none. access(2)
        # drops capabilities of other users unless no_setuid_fixup is set, and execve does not.
        argv = [
            "setpriv", "--securebits=+no_setuid_fixup", f"--reuid={user['uid']}", f"--regid={user['gid']}",
            f"--groups={groups}" if groups else "--clear-groups",
            "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
            "--bounding-set=-all,+dac_read_search", *argv,
        ]  # fmt: skip
    os.execvp(argv[0], argv)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main()

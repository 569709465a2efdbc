"""Tools that only some tests need: how each is found, and which distribution package brings it.

Standard library only: ``.ci/run`` runs this file, before anything is installed, to learn what to install.
"""

from __future__ import annotations

import ast
import ctypes.util
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Tool:
    """A tool: the Debian and Ubuntu package that has it (none where a right is meant), how it is found."""

    package: str
    found: Callable[[], bool]
    hint: str = ""

    @property
    def advice(self) -> str:
        return self.hint or f"install the package {self.package}"


def _program(package: str, *names: str) -> Tool:
    return Tool(package, lambda: all(_which(name) for name in names))


def _which(name: str) -> str | None:
    # Daemons live in sbin, which is not on every user's PATH.
    return shutil.which(
        name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
    )


def _library(package: str, name: str) -> Tool:
    return Tool(package, lambda: ctypes.util.find_library(name) is not None)


def _file(package: str, path: str) -> Tool:
    return Tool(package, Path(path).exists)


@functools.cache
def _can_mount() -> bool:
    """Root in a container may still lack the right, so a small tmpfs is really mounted."""
    mount, umount = _which("mount"), _which("umount")
    if os.geteuid() != 0 or mount is None or umount is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        argv = [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
        if subprocess.run(argv, capture_output=True, check=False).returncode != 0:
            return False
        return subprocess.run([umount, folder], capture_output=True, check=False).returncode == 0


@functools.cache
def without_network() -> tuple[str, ...]:
    """Return the words before a command that runs it in a network namespace of its own: no route anywhere."""
    unshare = _which("unshare")
    if unshare is None:
        return ()
    for words in ((unshare, "--net"), (unshare, "--user", "--map-current-user", "--net")):
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
            return words
    return ()


@functools.cache
def _has_git_helper(name: str) -> bool:
    git = _which("git")
    if git is None:
        return False
    folder = subprocess.run([git, "--exec-path"], capture_output=True, text=True, check=False).stdout.strip()
    return (Path(folder) / name).exists()


#: Programs whose package has their name.
_OF_THEIR_NAME = (
    "buildah", "ccache", "cmake", "debootstrap", "dash", "fish", "g++", "icecc",
    "openssl", "patchelf", "redis-server", "shellcheck", "strace", "tcsh", "zsh",
)  # fmt: skip
TOOLS: dict[str, Tool] = {
    **{name: _program(name, name) for name in _OF_THEIR_NAME},
    "apt-get": _program("apt", "apt-get"),
    "ninja": _program("ninja-build", "ninja"),
    "distcc": _program("distcc", "distcc", "distccd"),
    "git-daemon": Tool("git", lambda: _has_git_helper("git-daemon")),
    "git-http-backend": Tool("git", lambda: _has_git_helper("git-http-backend")),
    "ip": _program("iproute2", "ip"),
    "lspci": _program("pciutils", "lspci"),
    "mkfs.ext4": _program("e2fsprogs", "mkfs.ext4"),
    "lmod": _file("lmod", "/usr/share/lmod/lmod/libexec/lmod"),
    "libjpeg": _file("libjpeg-dev", "/usr/include/jpeglib.h"),
    "libpng": _program("libpng-dev", "libpng-config"),
    "libze-dev": _file("libze-dev", "/usr/include/level_zero/ze_api.h"),
    "libze1": _library("libze1", "ze_loader"),
    "netns": Tool("", lambda: bool(without_network()), hint="allow network namespaces, or run as root"),
    "mount": Tool("", _can_mount, hint="run as root, with the right to mount"),
    "munged": _program("munge", "munged"),
    "node": _program("nodejs", "node"),
    "ocloc": _program("intel-opencl-icd", "ocloc"),
    "root": Tool("", lambda: os.geteuid() == 0, hint="run as root"),
    "script": _program("bsdutils", "script"),
    "setpriv": _program("util-linux", "setpriv"),
    "slurmctld": _program("slurm-wlm", "slurmctld", "slurmd"),
    "ssh": _program("openssh-client", "ssh", "ssh-keygen"),
    "sshd": _program("openssh-server", "sshd"),
    "umockdev-run": _program("umockdev", "umockdev-run"),
}


def missing(name: str) -> Tool | None:
    """Return the tool where it is not on this machine. An unknown name raises KeyError."""
    tool = TOOLS[name]
    return None if tool.found() else tool


def named_by_tests() -> set[str]:
    """Return the tools that the tests name in a ``needs`` marker.

    Raises:
        TypeError: one is not written out, so that CI would not install it.
    """
    found = set()
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.needs":
                for argument in node.args:
                    if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                        raise TypeError(f"{path}:{node.lineno}: name the tool itself: {ast.unparse(node)}")
                    found.add(argument.value)
    return found


def packages() -> list[str]:
    """Return the packages that bring every tool the tests name."""
    return sorted({TOOLS[name].package for name in named_by_tests() if TOOLS[name].package})


if __name__ == "__main__":
    sys.stdout.write("".join(f"{package}\n" for package in packages()))

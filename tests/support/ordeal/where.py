"""Where attempts run: namespaces of their own, so that nothing outlives them and no network is reached."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support import needs

_INSIDE = "XPUBUILD_ORDEAL_INSIDE"
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_OWN = ("--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
#: What a kind needs beyond Python, git and gcc: support/needs.py has the names.
_NEEDS = {
    "power": ("root", "mount", "mkfs.ext4"),
    "full": ("mount",),
    "error": ("strace",),
    "mixed": ("strace",),
}


def enter(argv: Sequence[str], *, network: bool) -> int | None:
    """Run this program again in namespaces of its own; return its status, None where it is inside or may not.

    There, mounts and processes end with it; without ``network`` only the loopback interface is there.
    """
    if os.environ.get(_INSIDE):
        if not network:
            _loopback_up()
        return _as_init() if os.getpid() == 1 else None
    unshare = shutil.which("unshare")
    own = _OWN if network else (*_OWN, "--net")
    for rights in ((), ("--user", "--map-root-user")) if unshare else ():
        words = [str(unshare), *rights, *own, "--"]
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
            environment = {**os.environ, _INSIDE: "1"}
            return subprocess.run([*words, sys.executable, *argv], env=environment, check=False).returncode
    return None


def _as_init() -> int | None:
    """Let a child do the work and wait for what is orphaned, as the first process of a namespace has to."""
    child = os.fork()
    if child == 0:
        return None
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ended, status = os.wait()
        if ended == child:
            return abs(os.waitstatus_to_exitcode(status))


def _loopback_up() -> None:
    with socket.socket() as any_socket:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        flags = struct.unpack("16sH14s", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", flags | _IFF_UP, b""))


def lacking(kind: str) -> list[str]:
    return [name for name in _NEEDS.get(kind, ()) if needs.missing(name)]


def scratch() -> Path | None:
    """Return a folder in memory, where a flush costs nothing; None: the usual temporary folder."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < 4 << 30:
        return None
    return memory

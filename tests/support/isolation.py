"""A test run that touches nothing of the user's: a home and settings of its own, pip as it is configured."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path

import psutil

# Of the caller's shell: each would change what xpubuild or git does in a test.
_CACHE = "XPUBUILD_TEST_CACHE"  # where runs share what takes long to get (integration/torch_env.py)
_DROPPED_PREFIXES = ("XPUBUILD_", "SETVARS_", "PYTEST_ADDOPTS")
_DROPPED = frozenset({
    "ONEAPI_ROOT", "CMPLR_ROOT", "MKLROOT", "CMAKE_PREFIX_PATH", "CPATH", "LIBRARY_PATH",
    "CFLAGS", "CXXFLAGS", "LDFLAGS", "MAX_JOBS", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME",
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG_GLOBAL",
    "CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE",
})  # fmt: skip
# The kernel counts the start of a process in ticks since a boot time of whole seconds.
_CLOCK_TOLERANCE_S = 2.0
_EXECVE_S = 0.5
_PIP_FILES = (".config/pip/pip.conf", ".pip/pip.conf")


def isolate(environ: MutableMapping[str, str], root: Path) -> None:
    """Give the process a home of its own below ``root``.

    pip keeps its configuration, credentials, certificates and download cache: without them no test could
    install anything behind a proxy or from a mirror.
    """
    home = Path(environ.get("HOME", "/"))
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    ours = root / "home"
    for name, folder in _folders(ours, root).items():
        folder.mkdir(parents=True, exist_ok=True)
        environ[name] = str(folder)
    _keep_pip(
        environ, {_PIP_FILES[0]: config / "pip" / "pip.conf", _PIP_FILES[1]: home / _PIP_FILES[1]}, ours
    )
    environ.setdefault("PIP_CACHE_DIR", str(cache / "pip"))
    if (home / ".netrc").is_file():
        environ.setdefault("NETRC", str(home / ".netrc"))
    for name in list(environ):
        if name in _DROPPED or (name.startswith(_DROPPED_PREFIXES) and name != _CACHE):
            del environ[name]
    _find_python(environ, root / "bin")
    # Whether uv is installed must make no difference; tests of uv ask for it.
    environ["XPUBUILD_INSTALLER"] = "pip"
    # What one test builds must not be taken by the next, which is about building it.
    environ["XPUBUILD_STORE_READ_ONLY"] = "1"


def _find_python(environ: MutableMapping[str, str], folder: Path) -> None:
    """Let python3 be an interpreter: the shim of a version manager starts two shells for every question."""
    folder.mkdir(exist_ok=True)
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    environ["PATH"] = f"{folder}{os.pathsep}{environ.get('PATH', os.defpath)}"


def _folders(home: Path, root: Path) -> dict[str, Path]:
    return {
        "HOME": home,
        "XDG_CONFIG_HOME": home / ".config",
        "XDG_CACHE_HOME": home / ".cache",
        "XDG_DATA_HOME": home / ".local" / "share",
        "XDG_STATE_HOME": home / ".local" / "state",
        "XDG_CONFIG_DIRS": root / "etc",
        "TMPDIR": root / "tmp",
    }


def _keep_pip(environ: MutableMapping[str, str], files: Mapping[str, Path], home: Path) -> None:
    for place, file in files.items():
        if file.is_file():
            (home / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, home / place)
            # A test that changes HOME once more still has the nearest of them.
            environ.setdefault("PIP_CONFIG_FILE", str(home / place))


def heed_interrupts() -> None:
    """Let Ctrl-C and the end of a login end this process, and so what the tests start.

    A shell without job control lets what it starts in the background ignore the one, and nohup the other,
    which is inherited.
    """
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def left_behind(root: Path) -> list[psutil.Process]:
    """Return the processes that a test started and nobody stopped, this one and its callers left out.

    They are known by the temporary home in their environment: a daemon has no parent to be found by.
    """
    me = psutil.Process()
    known = {me.pid, *(parent.pid for parent in me.parents())}
    began = me.create_time() - _CLOCK_TOLERANCE_S
    found = []
    for process in psutil.process_iter():
        if process.pid in known:
            continue
        try:
            if process.create_time() < began:
                continue
            values = _environment(process).values()
            if process.status() != psutil.STATUS_ZOMBIE and any(str(root) in value for value in values):
                found.append(process)
        except (psutil.Error, OSError):
            continue  # of another user, or gone meanwhile
    return found


def _environment(process: psutil.Process) -> dict[str, str]:
    """Read a process's environment; while it calls execve it seems to have none, which is no answer."""
    until = time.monotonic() + _EXECVE_S
    environment = process.environ()
    while not environment and time.monotonic() < until:
        time.sleep(0.01)
        environment = process.environ()
    return environment


def children_run() -> bool:
    """Whether a child of this process still runs; none is waited for, which is its owner's business."""
    for child in psutil.Process().children():
        try:
            if child.status() != psutil.STATUS_ZOMBIE:
                return True
        except psutil.Error:
            continue
    return False


def stop(processes: list[psutil.Process]) -> list[str]:
    lines = []
    for process in processes:
        try:
            lines.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
            process.kill()
        except psutil.Error:
            continue
    return lines


class NetworkGuard:
    """Lets sockets of the test process reach this machine only."""

    def __init__(self) -> None:
        self._connect = socket.socket.connect
        self._connect_ex = socket.socket.connect_ex

    def install(self) -> None:
        """Replace ``connect`` and ``connect_ex`` of all sockets."""
        guard = self

        def connect(self: socket.socket, address: object) -> None:
            guard.check(self, address)
            guard._connect(self, address)  # type: ignore[arg-type]

        def connect_ex(self: socket.socket, address: object) -> int:
            guard.check(self, address)
            return guard._connect_ex(self, address)  # type: ignore[arg-type]

        socket.socket.connect = connect  # type: ignore[method-assign, assignment]
        socket.socket.connect_ex = connect_ex  # type: ignore[method-assign, assignment]

    def remove(self) -> None:
        socket.socket.connect = self._connect  # type: ignore[method-assign]
        socket.socket.connect_ex = self._connect_ex  # type: ignore[method-assign]

    @staticmethod
    def check(opened: socket.socket, address: object) -> None:
        if opened.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
            return
        host = str(address[0])
        if not (host in ("localhost", "::1", "0.0.0.0", "::") or host.startswith("127.")):  # noqa: S104
            opened.close()
            raise AssertionError(f"a test tried to reach {host}; tests talk to this machine only")


def session_root() -> Path:
    """Make the folder of one test session; its name is what ``left_behind`` looks for."""
    return Path(tempfile.mkdtemp(prefix="xpubuild-tests-")).resolve()

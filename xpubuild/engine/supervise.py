"""The small parent of every command: it outlives neither its caller nor leaves a descendant behind.

Run as a script (``python -I -S supervise.py LIFE_FD RESULT_FD -- ARGV...``), standard library only. It is the
child subreaper of everything the command starts, so even a daemonised grandchild is found. When the
caller dies, however it dies, the kernel closes the caller's end of the LIFE pipe; the end-of-file is the
order to kill all descendants. A parent-death signal would not do: it fires when the *thread* that forked ends.

RESULT_FD receives one JSON object: ``returncode`` (negative: the signal), ``max_rss_bytes`` of the largest
process, ``user_s`` and ``system_s`` of the whole tree, or ``exec_error`` where the program could not start.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_ROUNDS = 200


def _prctl(option: int, value: int) -> None:
    # A kernel without the option (before 3.4) leaves the tree less tidy, never wrong.
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Return the process ids below ``root``, read from /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found: list[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found.extend(frontier)
    return found


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def kill_descendants() -> None:
    """Kill until nothing is left; a fork bomb of a build ends because each round kills the parents too."""
    for _ in range(_KILL_ROUNDS):
        victims = descendants(os.getpid())
        if not victims:
            return
        for pid in victims:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(0.005)


def _start(argv: list[str], error_fd: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        os.execvpe(argv[0], argv, os.environ)  # noqa: S606 - an argv list, no shell
    except OSError as error:
        os.write(error_fd, f"{error.errno} {error.strerror}".encode())
    os._exit(127)


def _report(result_fd: int, document: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        os.write(result_fd, json.dumps(document).encode())
        os.close(result_fd)


def _wait_for(pid: int, life_fd: int, wake_fd: int) -> tuple[int, object] | None:
    """Return (status, rusage) of ``pid``, or None where the caller died first."""
    selector = selectors.DefaultSelector()
    selector.register(life_fd, selectors.EVENT_READ)
    selector.register(wake_fd, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select(timeout=1.0):
            if key.fd == life_fd:
                return None
            numbers = os.read(wake_fd, 64)
            for number in numbers:
                if number in (signal.SIGINT, signal.SIGTERM):
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, number)
        with contextlib.suppress(ChildProcessError):
            while True:
                done, status, usage = os.wait4(-1, os.WNOHANG)
                if done == pid:
                    return status, usage
                if not done:
                    break


def main(arguments: list[str]) -> int:
    """Supervise one command; the exit status says nothing, the result document does."""
    life_fd, result_fd = int(arguments[0]), int(arguments[1])
    argv = arguments[3:]
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    for fd in (life_fd, result_fd):
        os.set_inheritable(fd, False)
    error_read, error_write = os.pipe()
    pid = _start(argv, error_write)
    os.close(error_write)
    exec_error = os.read(error_read, 400).decode("utf-8", "replace")
    ended = _wait_for(pid, life_fd, wake_read)
    kill_descendants()
    if ended is None:
        return 1
    status, usage = ended
    _report(
        result_fd,
        {
            "returncode": os.waitstatus_to_exitcode(status),
            "max_rss_bytes": usage.ru_maxrss * 1024,  # type: ignore[attr-defined]
            "user_s": usage.ru_utime,  # type: ignore[attr-defined]
            "system_s": usage.ru_stime,  # type: ignore[attr-defined]
            "exec_error": exec_error,
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

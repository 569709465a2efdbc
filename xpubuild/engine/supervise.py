"""The parent process of every command: it ends with its caller and leaves no descendant running.

Run as a script (``python -I -S supervise.py LIFE_FD RESULT_FD ENVIRONMENT_FD WHERE ARGV...``), standard
library only. It is the child subreaper of everything the command starts, so even a daemonised grandchild is
found. When the caller dies, however it dies, the kernel closes the caller's end of the LIFE pipe; the
end-of-file is the order to kill all descendants. A parent-death signal would not do: it fires when the
*thread* that forked ends. The caller starts this script with SIGINT and SIGTERM blocked, so that none arrives
before it is ready to pass them on.

ENVIRONMENT_FD holds the command's environment, NUL-separated. RESULT_FD receives a line ``NAME VALUE`` for
each of ``returncode`` (negative: the signal), ``max_rss_bytes`` of the largest process, ``user_s`` and
``system_s`` of the whole tree, and ``exec_error``, which is empty where the program started.

WHERE is ``isolated`` for a command without a network: loopback alone, in a network namespace of its own.
``network`` then is ``loopback``, or why the kernel or a container does not allow it and the command had the
machine's; ``asked`` are the hosts whose names were looked up in vain.

It starts once for every command, also for those that say a version in a few milliseconds, so it imports
little: json, pathlib, contextlib, selectors and enum would take longer than the rest of it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
    from collections.abc import Callable
else:
    # The same without its enumerations, whose module takes as long as the interpreter itself.
    import _signal as signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_ROUNDS = 200
#: From linux/sched.h and linux/sockios.h.
_CLONE_NEWUSER, _CLONE_NEWNET, _SIOCSIFFLAGS = 0x10000000, 0x40000000, 0x8914
_MOST_ASKED = 20


def _prctl(option: int, value: int) -> None:
    # A kernel without the option (before 3.4) leaves the tree less tidy, never wrong.
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Return the process ids below ``root``, read from /proc."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stream:
                    parents[int(name)] = int(stream.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
    found: list[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found.extend(frontier)
    return found


def _reap(pid: int = 0) -> tuple[int | None, bool]:
    """Reap what has ended; return the wait status of ``pid`` if it is among that, and if nothing is left.

    The kernel's word that there is no child is exact: an orphan becomes a child of the subreaper at once. A
    look at /proc alone can miss a process that was forked meanwhile.
    """
    status = None
    try:
        while True:
            done, found = os.waitpid(-1, os.WNOHANG)
            if not done:
                return status, False
            status = found if done == pid else status
    except ChildProcessError:
        return status, True


def _send(kill: Callable[[int, int], None], pid: int, number: int) -> None:
    """Send a signal to a process or a group that may have ended by now."""
    try:
        kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def kill_descendants() -> None:
    """Kill until nothing is left; a fork bomb of a build ends because each round kills the parents too."""
    for _ in range(_KILL_ROUNDS):
        if _reap()[1]:
            return
        for pid in descendants(os.getpid()):
            _send(os.kill, pid, signal.SIGKILL)
        time.sleep(0.005)


def _start(argv: list[str], environment: dict[bytes, bytes], error_fd: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        # Python itself ignores the last two.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execve(argv[0], argv, environment)
    except OSError as error:
        os.write(error_fd, f"{error.errno} {error.strerror}".encode())
    os._exit(127)


def _cut_off() -> socket.socket:
    """Leave the network for loopback alone; return the socket that every lookup of a name reaches.

    All addresses of IPv4 lead to loopback, so it does not matter which name server a program asks, and no
    program waits for an answer.

    Raises:
        OSError: the kernel or a container does not allow it.
    """
    import fcntl  # noqa: PLC0415 - for few commands, as the others
    import socket  # noqa: PLC0415
    import struct  # noqa: PLC0415

    unshare, user, group = ctypes.CDLL(None, use_errno=True).unshare, os.geteuid(), os.getegid()
    if unshare(_CLONE_NEWNET):
        if unshare(_CLONE_NEWUSER | _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
                stream.write(text)
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fcntl.ioctl(names, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", 1))
    # rtnetlink(7): a new route, type and table `local`, scope `host`, to all addresses by interface 1.
    route = struct.pack("8BI2HI", socket.AF_INET, 0, 0, 0, 255, 4, 254, 2, 0, 8, 4, 1)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as link:
        link.send(struct.pack("I2H2I", 16 + len(route), 24, 0x605, 1, 0) + route)
        if error := struct.unpack_from("i", link.recv(4096), 16)[0]:
            raise OSError(-error, "route")
    names.bind(("", 53))
    names.setblocking(False)
    return names


def _isolated() -> tuple[socket.socket | None, str]:
    """Cut this process off if it can be: tried in a child, since half of it would be worse than nothing."""
    pid = os.fork()
    if not pid:
        try:
            _cut_off()
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    failed = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if failed:
        return None, f"none of its own is allowed here ({os.strerror(failed)})"
    return _cut_off(), "loopback"


def _deny(names: socket.socket, asked: list[str]) -> None:
    """Answer that there is no such name (RFC 1035, section 4.1), and note the name."""
    try:
        data, sender = names.recvfrom(512)
        at, labels = 12, []
        while at < len(data) and data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode("ascii", "replace"))
            at += 1 + data[at]
        names.sendto(data[:2] + b"\x81\x83" + data[4:6] + bytes(6) + data[12 : at + 5], sender)
    except OSError:
        return
    name = "".join(letter for letter in ".".join(labels) if letter.isalnum() or letter in "-_.")
    # Not with the domains that a resolver appends, and not what this machine calls itself.
    known = [*asked, os.uname().nodename]
    if name and len(asked) < _MOST_ASKED and not any(f"{name}.".startswith(f"{it}.") for it in known):
        asked.append(name)


def _wait_for(
    pid: int, life_fd: int, wake_fd: int, names: socket.socket | None, asked: list[str]
) -> int | None:
    """Return the wait status of ``pid``, or None where the caller died first."""
    events = select.poll()
    for source in (life_fd, wake_fd, names):
        if source is not None:
            events.register(source, select.POLLIN)
    while True:
        readable = {fd for fd, _ in events.poll(1000)}
        if life_fd in readable:
            return None
        if names is not None and names.fileno() in readable:
            _deny(names, asked)
        for number in os.read(wake_fd, 64) if wake_fd in readable else b"":
            if number in (signal.SIGINT, signal.SIGTERM):
                _send(os.killpg, pid, number)
        status, _ = _reap(pid)
        if status is not None:
            return status


def main(arguments: list[str]) -> int:
    """Supervise one command; the exit status says nothing, the result document does."""
    life_fd, result_fd, environment_fd = map(int, arguments[:3])
    argv = arguments[4:]
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for fd in (life_fd, result_fd):
        os.set_inheritable(fd, False)
    names, network = _isolated() if arguments[3] == "isolated" else (None, "")
    # The command's environment; this process has its caller's, which is known to run this Python.
    with open(environment_fd, "rb") as stream:
        pairs = (entry.partition(b"=") for entry in stream.read().split(b"\0") if entry)
        environment = {name: value for name, _, value in pairs}
    if names is not None:
        # The host that is wanted is looked up, not that of a proxy.
        environment = {name: it for name, it in environment.items() if not name.lower().endswith(b"_proxy")}
    error_read, error_write = os.pipe()
    pid = _start(argv, environment, error_write)
    os.close(error_write)
    exec_error = os.read(error_read, 400).decode("utf-8", "replace")
    asked: list[str] = []
    status = _wait_for(pid, life_fd, wake_read, names, asked)
    kill_descendants()
    if status is None:
        return 1
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = {
        "returncode": os.waitstatus_to_exitcode(status),
        "max_rss_bytes": usage.ru_maxrss * 1024,
        "user_s": usage.ru_utime,
        "system_s": usage.ru_stime,
        "exec_error": exec_error,
        "network": network,
        "asked": " ".join(asked),
    }
    try:
        os.write(result_fd, "".join(f"{name} {value}\n" for name, value in result.items()).encode())
    except OSError:
        return 1  # the caller is gone, and nobody else reads it
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A compiler launcher: starts a compiler once the memory that it will probably need is free.

Run as a script (``python -I -S admit.py COMPILER ARGUMENT...``), standard library only, so that it starts in
a few milliseconds. ``XPUBUILD_ADMIT`` names a file of lines ``NAME VALUE``:

``budget``   bytes that all admitted processes together may have
``jobs``     admitted processes that may run at the same time
``ledger``   folder of the ledgers: one for each machine, as a home may be shared by many
``group``    ``yes`` where the memory is that of this process's control group: it has a ledger of its own
``learned``  folder with a file for each unit: peak memory in bytes and CPU seconds of when it last ran
``root``     folder that names of units do not contain
``default``  bytes of a unit of which nothing is known
``prior``    bytes and a part of the path of units that are not learned; the first that fits counts
``grain``    bytes that memory is counted in, 16 MiB
``patience`` seconds after which the first that waits lets nobody else in before it

A unit is heavy if so many of them as there are jobs would not fit into the budget. Heavy and light ones wait
in two queues, so that light ones run beside the few heavy ones that fit. The build tool has to start more
launchers than there are jobs: those that wait are then not missing among those that run.

The ledger is a file of which only locks are used: one byte for each grain of the budget, and one for each
job. A process holds locks on as many bytes as it was admitted with. They are locks of the open file
(``F_OFD_SETLK``), which the compiler inherits: the kernel releases them when the last process that has the
file open has ended, in whatever way. So nothing has to be cleaned up, and what the compiler of a killed
launcher still uses stays counted.
"""

from __future__ import annotations

# The module signal alone takes as long as all of this: it makes enumerations.
import _signal  # type: ignore[import-not-found]
import binascii
import fcntl
import os
import struct
import sys
import time

# typing and pathlib take longer to import than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Where the slots begin in the ledger: above any memory.
SLOTS = 1 << 40
_POLL_S = 0.01
_LOCK = "hhqqi4x"
#: What was measured may be a little more the next time.
_MARGIN = 1.1


class Setting:
    """What ``XPUBUILD_ADMIT`` says."""

    def __init__(self, text: str) -> None:
        pairs = [line.partition(" ")[::2] for line in text.splitlines()]
        values = dict(pairs)
        self.budget = int(values["budget"])
        self.jobs = max(1, int(values["jobs"]))
        self.ledger = values["ledger"]
        self.group = values.get("group") == "yes"
        self.learned = values["learned"]
        self.root = values["root"].rstrip("/") + "/"
        self.default = int(values["default"])
        self.grain = int(values.get("grain", 16 << 20))
        self.patience = float(values.get("patience", 10))
        priors = [value.partition(" ")[::2] for name, value in pairs if name == "prior"]
        self.priors = [(part, int(size)) for size, part in priors]

    @property
    def grains(self) -> int:
        """The budget in grains."""
        return max(1, self.budget // self.grain)

    def predicted(self, unit: str, known: int, count: int = 1) -> int:
        """Return the bytes that a unit will probably need; ``known`` is what it needed last, or 0.

        ``count`` is how many processes it runs at once: what is not known is for one.
        """
        if known:
            return int(known * _MARGIN) + 2 * self.grain
        return count * next((size for part, size in self.priors if part in unit), self.default)

    def wanted(self, size: int) -> int:
        """Return a size in grains; more than there are means all of them: such a unit runs alone."""
        return min(self.grains, max(1, -(-size // self.grain)))


def unit_of(argv: list[str], root: str) -> str:
    """Return the name of what a command makes, without ``root``; empty for a question or a trial of CMake."""
    if "-o" not in argv[:-1] or "-E" in argv:
        return ""
    name = argv[argv.index("-o") + 1]
    if not os.path.isabs(name):
        name = os.path.normpath(os.path.join(os.getcwd(), name))
    # CMake tries compilers in folders with random names; nothing of that is large or comes again.
    return "" if "CMakeFiles/CMakeScratch" in name or "cmTC_" in name else name.removeprefix(root)


def free_stretches(
    held: Callable[[int, int], tuple[int, int] | None], begin: int, end: int
) -> Iterator[tuple[int, int]]:
    """Yield the stretches of [begin, end) that nobody holds.

    ``held(begin, end)`` returns one that somebody holds and that overlaps, or None.
    """
    stretches = [(begin, end)]
    while stretches:
        low, high = stretches.pop()
        found = held(low, high)
        if found is None:
            yield low, high
            continue
        first, last = found
        stretches += [(a, b) for a, b in ((max(low, last), high), (low, min(high, first))) if a < b]


class Ledger:
    """Memory and slots as locks on a file; one object is what one process holds of them."""

    def __init__(self, folder: str, setting: Setting) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.setting = setting
        self.file, self.turn, self.heavy, self.light = (
            os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            for name in ("ledger", "turn", "heavy", "light")
        )

    def take(self, wanted: int) -> bool:
        """Hold a slot and ``wanted`` grains, or nothing; the caller has the turn."""
        slot = next(free_stretches(self._held, SLOTS, SLOTS + self.setting.jobs), None)
        if slot is None:
            return False
        taken: list[tuple[int, int]] = []
        for low, high in free_stretches(self._held, 0, self.setting.grains):
            taken.append((low, min(high, low + wanted)))
            wanted -= taken[-1][1] - low
            if not wanted:
                for begin, end in (*taken, (slot[0], slot[0] + 1)):
                    self._lock(fcntl.F_OFD_SETLK, begin, end)
                return True
        return False

    def wait(self, wanted: int) -> None:
        """Return when it is held; after the patience of the setting nobody else gets any before."""
        # Heavy: as many of these as there are jobs would not leave all jobs running.
        queue = self.heavy if wanted * self.setting.jobs > self.setting.grains else self.light
        fcntl.flock(queue, fcntl.LOCK_EX)
        end = time.monotonic() + self.setting.patience
        fcntl.flock(self.turn, fcntl.LOCK_EX)
        while not self.take(wanted):
            if time.monotonic() < end:
                fcntl.flock(self.turn, fcntl.LOCK_UN)
                time.sleep(_POLL_S)
                fcntl.flock(self.turn, fcntl.LOCK_EX)
            else:
                time.sleep(_POLL_S)
        fcntl.flock(self.turn, fcntl.LOCK_UN)
        fcntl.flock(queue, fcntl.LOCK_UN)

    def _lock(self, command: int, begin: int, end: int) -> tuple[int, ...]:
        asked = struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, begin, end - begin, 0)
        return struct.unpack(_LOCK, fcntl.fcntl(self.file, command, asked))

    def _held(self, begin: int, end: int) -> tuple[int, int] | None:
        kind, _, first, length, _ = self._lock(fcntl.F_OFD_GETLK, begin, end)
        return None if kind == fcntl.F_UNLCK else (first, first + length)


def place(setting: Setting) -> str:
    """Return the folder of the ledger of this machine, or of the control group that limits the memory."""
    name = os.uname().nodename
    if setting.group:
        with open("/proc/self/cgroup", "rb") as stream:
            groups = stream.read()
        # Of version 1 the memory's alone, of version 2 the only one: processes of one build differ in none.
        lines = [line for line in groups.splitlines() if line.startswith(b"0:") or b"memory" in line]
        name += f"-{binascii.crc32(b''.join(lines)):08x}"
    return os.path.join(setting.ledger, name)


def at_once(argv: list[str]) -> int:
    """Return how many processes a command runs at once: a device link starts an ocloc for each image."""
    option = "-fsycl-max-parallel-link-jobs="
    count = next((word.removeprefix(option) for word in argv if word.startswith(option)), "")
    return int(count) if count.isdigit() and "-fsycl-link" in argv else 1


def learn(file: str, known: int, peak: int, seconds: float, succeeded: bool) -> None:
    """Keep what a unit needed. One that failed may have been killed before it had all that it needs."""
    if not succeeded:
        peak = max(peak * 3 // 2, known)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    draft = f"{file}.{os.getpid()}"
    with open(draft, "w") as stream:
        stream.write(f"{peak} {seconds:.2f}\n")
    os.replace(draft, file)


def known_of(file: str) -> int:
    """Return the bytes that a unit needed when it last ran; 0 if it never did."""
    try:
        with open(file, "rb") as stream:
            word = stream.read(100).partition(b" ")[0]
    except OSError:
        return 0
    return int(word) if word.isdigit() else 0


def _start(argv: list[str], environ: dict[str, str]) -> int:
    """Run the compiler with the signals as they were before Python; return its wait status and usage."""
    try:
        return os.posix_spawnp(argv[0], argv, environ, setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ))
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        raise SystemExit(127) from None


def main(argv: list[str], environ: dict[str, str]) -> int:
    """Start ``argv`` when it fits, and return its exit status."""
    # Ctrl-C is for the compiler: this process ends after it.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    with open(environ.pop("XPUBUILD_ADMIT")) as stream:
        setting = Setting(stream.read())
    unit = unit_of(argv, setting.root)
    if not unit:
        os.execvpe(argv[0], argv, environ)
    # Its path with other separators, the end of it.
    file = os.path.join(setting.learned, unit.replace("/", "%")[-200:])
    known = known_of(file)
    try:
        ledger = Ledger(place(setting), setting)
        ledger.wait(setting.wanted(setting.predicted(unit, known, at_once(argv))))
        # The compiler inherits what is held.
        os.set_inheritable(ledger.file, True)
    except OSError as error:
        sys.stderr.write(f"xpubuild: not admitted by memory, started at once: {error}\n")
    _, status, usage = os.wait4(_start(argv, environ), 0)
    try:
        # That of the largest process.
        peak = usage.ru_maxrss * 1024 * at_once(argv)
        learn(file, known, peak, usage.ru_utime + usage.ru_stime, status == 0)
    except OSError as error:
        sys.stderr.write(f"xpubuild: its memory was not recorded: {error}\n")
    code = os.waitstatus_to_exitcode(status)
    # It ends as the compiler did. Of the signals that Python handles itself only SIGINT ends a compiler.
    if code < 0:
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))

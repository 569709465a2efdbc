"""What runs below this process now: memory, and the compilers that have run longest."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from xpubuild.frozen import frozen

_SHOWN = 3
#: Programs that make one file of others; a shell with ``-c`` is none.
_TOOL = re.compile(r"(.*(cc|\+\+|clang|icx|icpx|nvcc|ld|lld|mold|ar|ocloc)([-.]?[0-9.]+)?|ccache|sccache)")


@frozen
class Unit:
    """A compiler or linker that runs: what it makes, for how many seconds, with how many bytes below it."""

    what: str
    seconds: float
    memory_bytes: int


@frozen
class Activity:
    """Bytes of all processes together, and the units that have run longest."""

    memory_bytes: int = 0
    longest: tuple[Unit, ...] = ()


def activity(pid: int | None = None) -> Activity:
    """Return what runs below a process, this one if none is named; nothing where that cannot be read."""
    import psutil  # noqa: PLC0415 - for steps that take long

    now = time.time()
    found: dict[int, tuple[int, int, float, list[str]]] = {}
    with contextlib.suppress(psutil.Error, OSError):
        for child in psutil.Process(os.getpid() if pid is None else pid).children(recursive=True):
            with contextlib.suppress(psutil.Error, OSError), child.oneshot():
                found[child.pid] = (
                    child.ppid(),
                    child.memory_info().rss,
                    now - child.create_time(),
                    child.cmdline(),
                )
    units = [
        Unit(what, max(0.0, seconds), _below(number, found))
        for number, (parent, _, seconds, argv) in found.items()
        if (what := made_by(argv)) and not (parent in found and made_by(found[parent][3]))
    ]
    units.sort(key=lambda unit: unit.seconds, reverse=True)
    return Activity(sum(item[1] for item in found.values()), tuple(units[:_SHOWN]))


def made_by(argv: Sequence[str]) -> str:
    """Return what a compiler or linker makes with a command, "" for other programs."""
    if not argv or not _TOOL.fullmatch(PurePosixPath(argv[0]).name):
        return ""
    for option, verb in (("-c", "compiling"), ("-o", "linking")):
        if option in argv[1:-1]:
            return f"{verb} {PurePosixPath(argv[argv.index(option, 1) + 1]).name}"
    return ""


def _below(pid: int, found: Mapping[int, tuple[int, int, float, list[str]]]) -> int:
    return found[pid][1] + sum(_below(number, found) for number, item in found.items() if item[0] == pid)

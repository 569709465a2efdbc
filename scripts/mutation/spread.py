"""Spreads the mutants of a run over processes, and sees each through to its end.

All append to the same files, a line in one write, and each has a part of the work: references of tables
first, then records of cases, then mutants.
"""

from __future__ import annotations

import concurrent.futures
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: What is made before the next begins; a single process makes everything.
PHASES = ("references", "records", "mutants")
#: Status of a process whose device computes no more: the next mutant needs a new one.
SICK = 3
#: How often a process may end while it makes records; what it was in is not begun again.
_MOST_DEATHS = 20


def append(path: Path, line: dict[str, Any]) -> None:
    """Add a line of JSON to a file that others write to."""
    with path.open("ab", buffering=0) as stream:
        stream.write(json.dumps(line).encode() + b"\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Return what a file of JSON lines holds; a line that was cut is left out."""
    found = []
    for line in path.read_text("utf-8").splitlines() if path.is_file() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def part_of(text: str) -> tuple[int, int]:
    """Return which part of how many ``--part`` names."""
    number, _, count = text.partition("/")
    return int(number), int(count)


def share(work: Sequence[Any], part: tuple[int, int]) -> Sequence[Any]:
    """Return the work of one of several processes."""
    return work[part[0] :: part[1]]


def run(command: list[str], processes: int, end: float, out: Path) -> bool:
    """Run a command in parts until all work is done or the time is over.

    Return whether no process died but in a mutant, which it is blamed on.
    """
    for phase in PHASES if processes > 1 else PHASES[-1:]:
        if time.monotonic() > end and phase != PHASES[0]:
            break
        words = [*command, "--phase", phase, "--end", str(end)]
        see = functools.partial(_see_through, words, processes, out)
        with concurrent.futures.ThreadPoolExecutor(processes) as pool:
            if not all(pool.map(see, range(processes))):
                return False
    return True


def _see_through(words: list[str], processes: int, out: Path, number: int) -> bool:
    deaths = 0
    while True:
        part = f"{number}/{processes}"
        status = subprocess.run([*words, "--part", part], check=False).returncode
        if status == 0:
            return True
        if status == SICK:
            continue
        mine = [one for one in read(out) if one.get("part", part) == part]
        if mine and "result" not in mine[-1]:
            blamed = {"result": "caught", "by": "crash", "said": f"the process ended with {status}"}
            append(out, {**mine[-1], **blamed})
            continue
        deaths += 1
        if "records" not in words or deaths > _MOST_DEATHS:
            sys.stderr.write(f"part {part} ended with status {status}\n")
            return False


def end_sick() -> None:
    """End this process, for a new one to go on; nothing that CUDA does at exit can hang."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(SICK)

#!/usr/bin/env python3
"""Replay the compilations of a build as processes that hold their memory for their time, below a real limit.

A profile is a file of lines ``UNIT,SECONDS,BYTES`` in the order in which ninja starts them. Real ninja starts
a small C program for each, which maps and touches that much memory and then sleeps; all of them are in a
control group with a limit, so the kernel kills one where it is too much. Memory and time are scaled. Compared
are the width of all cores, the largest number of jobs that nobody is killed with, and compilers that wait for
memory, in a first build (nothing was measured) and a later one. Needs root, for the control group, and a C
compiler.
"""

from __future__ import annotations

import argparse
import csv
import heapq
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from xpubuild.engine import admit
from xpubuild.install.build_jobs import LAUNCHERS, VARIABLE, program
from xpubuild.machine.jobs import plan_jobs

GIB = 1 << 30
HOLD = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
/* hold GROUP SECONDS BYTES -o FILE: grows to BYTES in the first half of SECONDS. */
int main(int argc, char **argv) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  double start = now.tv_sec + now.tv_nsec / 1e9, seconds = atof(argv[2]);
  size_t bytes = strtoull(argv[3], 0, 10), step = bytes / 8 + 1;
  int group = open(argv[1], O_WRONLY);
  if (group < 0 || write(group, "0", 1) != 1) return 2;
  char *memory = mmap(0, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 3;
  for (int part = 0; part <= 8; part++) {
    size_t begin = part * step;
    if (begin < bytes) memset(memory + begin, 1, begin + step < bytes ? step : bytes - begin);
    double until = start + seconds * (part < 8 ? (part + 1) / 16.0 : 1);
    struct timespec end = {(time_t)until, (long)((until - (time_t)until) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, 0));
  }
  return close(open(argv[5], O_CREAT | O_WRONLY, 0644));
}
"""


@dataclass(frozen=True)
class Unit:
    """One compilation: ``seconds`` and ``size`` in bytes."""

    name: str
    seconds: float
    size: int


@dataclass(frozen=True)
class Result:
    """One run; ``peak`` is the most that all units had at once, as a share of the limit."""

    way: str
    jobs: int
    seconds: float
    killed: int
    peak: float


@dataclass
class Site:
    """Where units run: a folder and a control group, with what is replayed."""

    folder: Path
    group: Path
    units: Sequence[Unit]
    cores: int
    limit: int
    scale: float
    priors: Sequence[tuple[str, float]]
    default: float


def profile(path: Path, time_scale: float, memory_scale: float) -> list[Unit]:
    """Return the scaled units of a profile."""
    with path.open(newline="") as stream:
        rows = [row for row in csv.reader(stream) if row and not row[0].startswith("#")]
    return [Unit(name, float(s) / time_scale, int(int(size) / memory_scale)) for name, s, size in rows]


@contextmanager
def control_group(limit: int) -> Iterator[Path]:
    """Yield the folder of a new memory control group, version 1 or 2."""
    top = Path("/sys/fs/cgroup")
    first = top / "memory"
    group = (first if first.is_dir() else top) / f"xpubuild-replay-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if first.is_dir() else "memory.max")).write_text(str(limit))
    except OSError as error:
        raise SystemExit(f"no control group with a memory limit can be made here: {error}") from None
    try:
        yield group
    finally:
        # The last process that ended may still be on its way out.
        for _ in range(50):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def _number(group: Path, names: Sequence[str], word: str = "") -> int:
    for name in names:
        if (group / name).exists():
            for line in (group / name).read_text().splitlines():
                if line.split()[0] == word or not word:
                    return int(line.split()[-1])
    return 0


def run(site: Site, way: str, jobs: int, settings: str = "") -> Result:
    """Let ninja build all units; a killed one ends the run, as it ends a build."""
    out = site.folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    launcher = f"{site.folder}/launch " if settings else ""
    lines = ["rule unit", f"  command = {launcher}{site.folder}/hold {site.group}/cgroup.procs $of -o $out"]
    for unit in site.units:
        lines += [f"build out/{unit.name}: unit", f"  of = {unit.seconds:.3f} {unit.size}"]
    (site.folder / "build.ninja").write_text("\n".join(lines) + "\n")
    (site.folder / ".ninja_log").unlink(missing_ok=True)
    env = {"PATH": os.environ["PATH"]}
    if settings:
        (site.folder / "settings").write_text(settings)
        env[VARIABLE] = str(site.folder / "settings")
    peaks = ("memory.max_usage_in_bytes", "memory.peak")
    if (site.group / peaks[0]).exists():
        (site.group / peaks[0]).write_text("0")
    kills = ("memory.oom_control", "memory.events")
    before = _number(site.group, kills, "oom_kill")
    ninja = shutil.which("ninja", path=f"{Path(sys.executable).parent}:{env['PATH']}") or "ninja"
    started = time.monotonic()
    subprocess.run(
        [ninja, "-C", str(site.folder), "-j", str(jobs)], env=env, stdout=subprocess.DEVNULL, check=False
    )
    seconds = time.monotonic() - started
    killed = _number(site.group, kills, "oom_kill") - before
    return Result(way, jobs, round(seconds, 2), killed, round(_number(site.group, peaks) / site.limit, 3))


def settings_of(site: Site) -> str:
    """Return what the launcher reads, as for a machine of this size."""
    plan = plan_jobs(site.cores, int(site.limit * site.scale), "auto", int(site.default * GIB), can_wait=True)
    budget = plan.budget_bytes or int(site.limit * site.scale)
    lines = [
        f"budget {int(budget / site.scale)}",
        f"jobs {site.cores}",
        f"ledger {site.folder}/ledger",
        f"learned {site.folder}/learned",
        f"root {site.folder}/out",
        f"default {int(site.default * GIB / site.scale)}",
        f"grain {int((16 << 20) / site.scale)}",
        *(f"prior {int(gib * GIB / site.scale)} {part}" for part, gib in site.priors),
    ]
    return "\n".join(lines) + "\n"


def expected(units: Sequence[Unit], jobs: int) -> int:
    """Return the most memory of units that are started in order, so many at once."""
    running: list[tuple[float, int]] = []
    now, held, most = 0.0, 0, 0
    for unit in units:
        if len(running) == jobs:
            now, size = heapq.heappop(running)
            held -= size
        heapq.heappush(running, (now + unit.seconds, unit.size))
        held += unit.size
        most = max(most, held)
    return most


def safe(site: Site) -> list[Result]:
    """Return the run with the largest number of jobs that nobody is killed with, and the next larger one."""
    jobs = max((n for n in range(1, site.cores + 1) if expected(site.units, n) <= site.limit), default=1)
    found = run(site, "one number of jobs", jobs)
    while found.killed and found.jobs > 1:
        found = run(site, "one number of jobs", found.jobs - 1)
    while found.jobs < site.cores:
        more = run(site, "one number of jobs", found.jobs + 1)
        if more.killed:
            return [found, more]
        found = more
    return [found]


def waiting(site: Site, rounds: int) -> list[Result]:
    """Return runs of which the first has nothing but priors."""
    shutil.rmtree(site.folder / "learned", ignore_errors=True)
    text, jobs = settings_of(site), LAUNCHERS * site.cores
    first = run(site, "waiting, first build", jobs, text)
    later = [run(site, "waiting, later build", jobs, text) for _ in range(rounds)]
    return [first, *later]


def compare(site: Site, rounds: int) -> list[Result]:
    """Return all runs; where all cores are safe, that is the number to compare with, in pairs."""
    whole = run(site, "all cores", site.cores)
    if whole.killed:
        return [whole, *safe(site), *waiting(site, rounds)]
    runs = [whole, *waiting(site, 1)]
    for _ in range(rounds - 1):
        runs += [run(site, "all cores", site.cores)]
        runs += [run(site, "waiting, later build", LAUNCHERS * site.cores, settings_of(site))]
    return runs


def table(results: Sequence[Result]) -> str:
    """Return the runs as a table: medians, and from what to what."""
    lines = ["| | jobs | seconds | killed | most memory |", "| --- | ---: | ---: | ---: | ---: |"]
    for way, jobs in dict.fromkeys((item.way, item.jobs) for item in results):
        same = [item for item in results if (item.way, item.jobs) == (way, jobs)]
        times = sorted(item.seconds for item in same)
        noise = f" ({times[0]:.1f} to {times[-1]:.1f})" if len(times) > 1 else ""
        shown = jobs if not way.startswith("waiting") else jobs // LAUNCHERS
        killed = sum(item.killed for item in same)
        told = f"{statistics.median(times):.1f}{noise}" if not killed else "ended by a kill"
        lines.append(f"| {way} | {shown} | {told} | {killed} | {max(item.peak for item in same):.0%} |")
    return "\n".join(lines)


def main() -> None:
    """Replay a profile in every way, and print the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("profile", type=Path)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--memory-gib", type=float, default=32)
    parser.add_argument("--time-scale", type=float, default=10, help="so many times faster")
    parser.add_argument("--memory-scale", type=float, default=16, help="so many times less")
    parser.add_argument("--default-gib", type=float, default=4, help="as memory_gib_per_job of a recipe")
    parser.add_argument(
        "--prior", action="append", default=[], metavar="PART=GIB", help="as unit_memory of a recipe"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    units = profile(asked.profile, asked.time_scale, asked.memory_scale)
    limit = int(asked.memory_gib * GIB / asked.memory_scale)
    priors = [(part, float(gib)) for part, _, gib in (item.partition("=") for item in asked.prior)]
    with tempfile.TemporaryDirectory() as name, control_group(limit) as group:
        folder = Path(name)
        (folder / "hold.c").write_text(HOLD)
        compiler = shutil.which("cc") or "cc"
        subprocess.run([compiler, "-O2", "-o", str(folder / "hold"), str(folder / "hold.c")], check=True)
        (folder / "launch").write_text(program(sys.executable))
        (folder / "launch").chmod(0o755)
        shutil.copy(admit.__file__, folder / "admit.py")
        units = [replace(unit, name=unit.name.replace("/", "_")) for unit in units]
        site = Site(folder, group, units, asked.cores, limit, asked.memory_scale, priors, asked.default_gib)
        results = compare(site, asked.rounds)
    print(table(results))  # noqa: T201
    if asked.json:
        asked.json.write_text(json.dumps([asdict(item) for item in results], indent=1) + "\n")


if __name__ == "__main__":
    main()

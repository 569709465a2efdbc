#!/usr/bin/env python3
"""Hold `xpubuild doctor` against `python -m torch.utils.collect_env` in one environment, run by turns.

    scripts/benchmark-doctor.py --python /path/to/environment/bin/python --rounds 7

The environment must have torch; xpubuild is taken from the interpreter that runs this script. Each round runs
both once; the first round warms the caches of the file system and is not counted. Prints seconds and the
ratio (collect_env / doctor) as minimum, median and maximum, and how much each of them tells, in lines.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

#: What doctor ends with where all is well, and where it found a failure: both are answers.
_ANSWERS = (0, 10)


def timed(argv: Sequence[str], env: dict[str, str], answers: Sequence[int]) -> tuple[float, str]:
    """Return the seconds that a command took and its output.

    Raises:
        RuntimeError: it ended with another status than the expected ones.
    """
    began = time.perf_counter()
    done = subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    if done.returncode not in answers:
        raise RuntimeError(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return seconds, done.stdout


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return minimum, median and maximum, rounded to milliseconds."""
    found = {"min": min(values), "median": statistics.median(values), "max": max(values)}
    return {name: round(value, 3) for name, value in found.items()}


def measure(python: Path, rounds: int) -> dict[str, object]:
    """Return the figures of ``rounds`` rounds."""
    # As in a shell that entered the environment.
    env = {**os.environ, "VIRTUAL_ENV": str(python.parent.parent)}
    env["PATH"] = f"{python.parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    theirs = [str(python), "-m", "torch.utils.collect_env"]
    ours = [sys.executable, "-m", "xpubuild", "doctor", "-v"]
    pairs = []
    told: dict[str, int] = {}
    for _ in range(rounds + 1):
        other, other_text = timed(theirs, env, (0,))
        own, own_text = timed(ours, env, _ANSWERS)
        pairs.append((other, own))
        told = {"collect_env": len(other_text.splitlines()), "doctor": len(own_text.splitlines())}
    counted = pairs[1:]
    return {
        "rounds": rounds,
        "collect_env_s": summary([other for other, _ in counted]),
        "doctor_s": summary([own for _, own in counted]),
        "ratio": summary([other / own for other, own in counted]),
        "lines": told,
        "cpus": len(os.sched_getaffinity(0)),
    }


def main() -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", type=Path, required=True, help="interpreter of an environment with torch")
    parser.add_argument("--rounds", type=int, default=7, help="rounds that count (default: 7)")
    arguments = parser.parse_args()
    # Absolute, links kept: the link is what makes it the environment's interpreter.
    figures = measure(arguments.python.absolute(), max(1, arguments.rounds))
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

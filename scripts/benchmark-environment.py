#!/usr/bin/env python3
"""How long the environment of a workspace takes with pip and with uv: the first of a user, and the next one.

Wall-clock time depends on the machine's load, CPU time of all processes hardly. pip has its own cache as
configured; uv begins with an empty one.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    """Install as asked, and print a line for each installation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--recipe", default="quickstart")
    parser.add_argument("--until", default="toolchain", help="last step (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where workspaces and the cache of uv are made")
    options = parser.parse_args()
    _say(f"{'':14}{'wall':>9}{'CPU':>9}  {options.recipe} --until {options.until}")
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=options.folder) as made:
        for installer in ("pip", "uv"):
            for which in ("first", "second"):
                wall, cpu = measured(options, Path(made), installer, which)
                _say(f"{installer + ', ' + which:14}{wall:7.1f} s{cpu:7.1f} s")
    return 0


def measured(options: argparse.Namespace, made: Path, installer: str, which: str) -> tuple[float, float]:
    """Install once; return wall-clock and CPU time (s)."""
    words = ["install", options.recipe, "--until", options.until, "--installer", installer, "--quiet"]
    workspace = made / f"{installer}-{which}"
    environment = {**os.environ, "XDG_CACHE_HOME": str(made / "cache")}
    environment.setdefault("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))
    before, began = _cpu(), time.monotonic()
    argv = [sys.executable, "-m", "xpubuild", *words, "--workspace", str(workspace)]
    subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began, _cpu() - before


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())

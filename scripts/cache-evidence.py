"""Measures a compile cache: installs a recipe in two workspaces at different paths, through one empty cache.

The sources of torchvision 0.21.0 are those of tests/e2e/test_components.py; without a recipe they are built
with its ordinary flags, in one job per core. Prints a table: time of the step, CPU time, hits by family.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benching.inputs import components


def install(recipe: str, workspace: Path, step: str, options: list[str], cache: Path) -> dict[str, Any]:
    """Install up to a step and return the receipt; its progress goes to standard error."""
    argv = [sys.executable, "-m", "xpubuild", "install", recipe, "--until", step]
    argv += ["--workspace", str(workspace), *options, "--json"]
    env = {**os.environ, "CCACHE_DIR": str(cache), "XDG_CACHE_HOME": str(workspace.parent / "downloads")}
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    if not isinstance(found, dict):
        raise SystemExit("no receipt was printed")
    return found


def tell(text: str) -> None:
    """Print a line at once: an install takes minutes."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def rows(receipt: dict[str, Any], step: str) -> Iterator[str]:
    """Return the measured lines of a step."""
    command = [item for item in receipt["commands"] if item["step"] == step][-1]
    cpu = command["user_s"] + command["system_s"]
    families = next((item["families"] for item in receipt["compile_cache"] if item["step"] == step), [])
    hits = "; ".join(
        f"{item['family']}: {item['hits']} of {item['calls']} calls hit, {item['misses']} missed"
        for item in families
    )
    yield f"| {receipt['workspace']} | {command['duration_s']:.1f} s | {cpu:.1f} s | {hits} |"


def main() -> int:
    """Run the two installs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where workspaces and cache go; it must not exist")
    parser.add_argument("--recipe", help="recipe to install instead of torchvision")
    parser.add_argument("--step", default="vision.wheel", help="step to measure, and the last one")
    arguments, options = parser.parse_known_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True)
    recipe = arguments.recipe
    if recipe is None:
        recipe, options = str(components(folder / "recipe", "vision")), [*options, "--without", "ops,audio"]
    tell(f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    tell("| workspace | time | CPU time | |\n| --- | --- | --- | --- |")
    for place in (folder / "first", folder / "another" / "deeper" / "second"):
        place.parent.mkdir(parents=True, exist_ok=True)
        for line in rows(install(recipe, place, arguments.step, options, folder / "ccache"), arguments.step):
            tell(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

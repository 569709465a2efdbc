#!/usr/bin/env python3
"""Follow docs/how-to/ci-images.md: run the commands of its blocks as they stand, in their order. As root.

They run in an empty folder, with the xpubuild of this checkout on PATH. What a reader has and this does not
is given by variables: a base under its name in a storage of its own, and a wheel for the release that no
index has yet. The first command that fails ends it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support import image_store  # noqa: E402
from support.guides import commands  # noqa: E402

GUIDE = ROOT / "docs" / "how-to" / "ci-images.md"


def say(text: str) -> None:
    """Print between what the commands print."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def follow(folder: Path) -> int:
    """Run the commands in a folder; return how many there were.

    Raises:
        SystemExit: one failed.
    """
    lines = commands(GUIDE)
    for line in lines:
        say(f"$ {line}")
        began = time.monotonic()
        done = subprocess.run(["/bin/bash", "-euo", "pipefail", "-c", line], cwd=folder, check=False)
        say(f"exit code {done.returncode}, {(time.monotonic() - began) / 60:.1f} min")
        if done.returncode:
            raise SystemExit(f"{GUIDE.relative_to(ROOT)}: failed: {line}")
    return len(lines)


def main() -> None:
    """Prepare what the guide takes for granted, then follow it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".images")
    parser.add_argument("--suite", default="bookworm", help="of Debian, for mmdebstrap")
    parser.add_argument("--driver", default="overlay", help="of the storage: vfs where overlay does not work")
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    wheel = image_store.prepare(folder, asked.suite, asked.driver)
    place = folder / "guide"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    os.environ.update(
        PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        XPUBUILD_WORKSPACE=str(folder / "workspace"),
        XPUBUILD_XPUBUILD=str(wheel),
    )
    say(f"{follow(place)} commands ran as they stand")


if __name__ == "__main__":
    main()

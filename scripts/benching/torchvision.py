"""Writes a recipe that builds torchvision with its ordinary flags, with a repository of its sources.

The sources of torchvision 0.21.0 are those that ``make components`` builds.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_DATA = ROOT / "tests/data/components"
_NOWHERE = "0" * 40


def torchvision(folder: Path) -> Path:
    """Write the recipe of the components' test for torchvision alone and return its path."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support import upstream  # noqa: PLC0415 - of the tests

    folder.mkdir(parents=True, exist_ok=True)
    url, commit = upstream.repository("vision", folder / "upstream")
    text = (_DATA / "components.yaml").read_text("utf-8").replace("        CFLAGS: -g0 -O0\n", "")
    text = text.replace("https://github.com/pytorch/vision.git", Path(url).as_uri()).replace(
        _NOWHERE, commit, 1
    )
    for path in _DATA.glob("*.txt"):
        (folder / path.name).write_text(path.read_text("utf-8"), "utf-8")
    recipe = folder / "components.yaml"
    recipe.write_text(text, "utf-8")
    return recipe


if __name__ == "__main__":
    torchvision(Path(sys.argv[1]))

"""What rows read: a recipe with torchvision's and torchaudio's sources, and a long log of a build."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_DATA = ROOT / "tests/data/components"
sys.path.insert(0, str(ROOT / "tests"))  # for what tests have: upstream's sources, lines of logs
_NOWHERE = "0" * 40
#: What makes the compilation of the tests short: Python's own flags say -g -O3.
_SHORT = ("CFLAGS: -g0 -O0", "BUILD_RIR: 0", "BUILD_ALIGN: 0")


def components(folder: Path, *names: str) -> Path:
    """Write the recipe of the test of components, with ordinary flags, into a folder and return its path.

    The sources are those of ``names``, of vision and audio.
    """
    from support import upstream  # noqa: PLC0415 - of the tests

    folder.mkdir(parents=True, exist_ok=True)
    text = (_DATA / "components.yaml").read_text("utf-8")
    for name in names:
        url, commit = upstream.repository(name, folder / "upstream")  # type: ignore[arg-type]
        before, _, after = text.partition(f"https://github.com/pytorch/{name}.git")
        text = before + Path(url).as_uri() + after.replace(_NOWHERE, commit, 1)
    for path in _DATA.glob("*.txt"):
        (folder / path.name).write_text(path.read_text("utf-8"), "utf-8")
    recipe = folder / "components.yaml"
    lines = text.splitlines(keepends=True)
    recipe.write_text("".join(line for line in lines if line.strip() not in _SHORT), "utf-8")
    return recipe


def long_log(path: Path, size: int) -> None:
    """Write the log of a build without errors, of at least ``size`` bytes.

    Its lines are those of the tests of explain: a few dozen shapes, with other numbers.
    """
    from support.explain_logs import ordinary  # noqa: PLC0415 - of the tests

    with path.open("w", encoding="utf-8") as file:
        for seed in itertools.takewhile(lambda _: file.tell() < size, itertools.count()):
            file.writelines(f"{line}\n" for line in ordinary(20_000, seed))

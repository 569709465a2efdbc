"""Images as readable data files: tests/data/images has what is rendered for a few cells.

``make regen`` rewrites the files; a test compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from support.data_files import DATA
from xpubuild.images import make
from xpubuild.images.make import Rendered
from xpubuild.images.stages import Format
from xpubuild.install.options import Options

FOLDER = DATA / "images"


class Cell(NamedTuple):
    recipe: str
    base: str
    form: Format = "containerfile"
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed


#: By the name of the file.
CELLS = {
    "quickstart-debian-12.Containerfile": Cell("quickstart", "debian-12"),
    "quickstart-ubuntu-24.04.def": Cell("quickstart", "ubuntu-24.04", "apptainer"),
    "2.8-xpu-ubuntu-22.04.Containerfile": Cell("2.8", "ubuntu-22.04", options={"with_": ("vision",)}),
    "2.13-xpu-rocky-9.Containerfile": Cell("2.13", "rocky-9", options={"arch": ("pvc",)}),
    "2.13-xpu-sles-15.def": Cell("2.13", "sles-15", "apptainer", {"variant": "minimal"}),
    "2.8-cpu-sles-15.Containerfile": Cell("2.8", "sles-15", options={"target": "cpu"}),
}


def rendered(cell: Cell, program: Path | None = None) -> Rendered:
    options = Options(recipe=cell.recipe, workspace=Path("/somewhere"), **cell.options)
    return make.rendered(options, cell.base, cell.form, program)


def rewrite() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.iterdir():
        if path.name not in CELLS:
            path.unlink()
    for name, cell in CELLS.items():
        (FOLDER / name).write_text(rendered(cell).text, "utf-8")

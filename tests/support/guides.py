"""The code blocks of the documentation, and the commands that they show."""

from __future__ import annotations

import re
from pathlib import Path

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[str]:
    """Return what a reader types, in the order of the page; a line that ends in a backslash goes on."""
    blocks = [body for kind, body in BLOCK.findall(page.read_text("utf-8")) if kind == "console"]
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]

"""Writes what a command shows in a terminal as a picture: ``docs/images/matrix.svg`` for the README.

    python scripts/terminal-still.py docs/images/matrix.svg 130 xpubuild recipes matrix --here

The first words are the file and the width in columns. The command runs in a pseudo-terminal (util-linux's
``script``), rich draws what it printed; the font is the reader's own, since rich's picture would load one.
"""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<style>
text {{ font: {char_height}px ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre }}
{styles}
</style>
<defs>{lines}</defs>
<rect fill="#21222c" width="100%" height="100%" rx="8"/>
<g transform="translate({terminal_x}, 8)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def main(file: str, width: str, *command: str) -> int:
    """Run the command and write the picture; the exit status is the command's."""
    line = shlex.join(command)
    argv = ["script", "-qec", f"stty cols {width} rows 60; {line}", "/dev/null"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    console = Console(record=True, width=int(width), file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"\x1b[32m$\x1b[0m {line}\n{done.stdout}".replace("\r", "")))
    picture = console.export_svg(theme=DIMMED_MONOKAI, code_format=_SVG, unique_id="t")
    Path(file).write_text(picture, "utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

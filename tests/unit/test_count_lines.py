"""What counts as a line of code: the method behind every figure that the project gives of its own size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "count-lines.py"
MODULE = '''#!/usr/bin/env python3
"""A docstring
of two lines."""

# a comment
TEXT = """
a literal

"""  # with what is between its ends


def answer(
    of: int,  # a comment behind code
) -> int:
    """Nothing."""
    return of
'''


def test_code_lines_are_those_with_a_token_less_docstrings(tmp_path: Path) -> None:
    (tmp_path / "inner" / "deep").mkdir(parents=True)
    (tmp_path / "one.py").write_text("\n\nx = 1\n")
    (tmp_path / "inner" / "deep" / "two.py").write_text(MODULE)
    (tmp_path / "inner" / "text.md").write_text("x = 1\n")
    told = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    rows = dict(reversed(line.split(maxsplit=1)) for line in told.stdout.splitlines())
    assert rows == {"(top)": "1", "inner": "8", "in all": "9"}

"""A small finished workspace, whose Python tells its environment: for shells and module systems."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

#: What oneAPI's scripts might change, with values that each syntax has to quote.
CHANGES: dict[str, Any] = {
    "set": {
        "CMPLR_ROOT": "/opt/one api/compiler",
        "XT_ODD": 'it\'s "a" $HOME [x] {y} \\ `z` !1;  two\nlines',
    },
    "unset": ["XT_GONE"],
    "paths": {
        "PATH": {"prepend": ["/opt/one api/bin", "/opt/second/bin"], "append": [], "remove": []},
        "LD_LIBRARY_PATH": {"prepend": ["/opt/lib a", "/opt/lib-b"], "append": ["/opt/last"], "remove": []},
    },
}
_PYTHON = """\
#!{python}
# Stands for the Python of a workspace: prints the environment that it got.
import json, os
print(json.dumps(dict(os.environ)))
"""


def make_workspace(root: Path, recipe: str = "2.8", changes: dict[str, Any] | None = None) -> Path:
    """Make a workspace with a journal, a receipt and a Python; return its folder."""
    python = root / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(_PYTHON.format(python=sys.executable))
    python.chmod(0o755)
    (root / "journal.db").touch()
    captured = CHANGES if changes is None else changes
    receipt = {
        "recipe": recipe, "status": "complete", "activation": {"oneapi": captured},
        "summary": {"python": "3.12.1 (/usr/bin/python3.12)"}, "lock_digest": "0123456789abcdef",
    }  # fmt: skip
    (root / "receipt.json").write_text(json.dumps(receipt))
    return root

"""How the user started xpubuild, so that suggested commands work when they are copied."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def how_called(argv0: str | None = None) -> str:
    """Return the words, quoted for a shell, that start this xpubuild again, from any folder."""
    called = Path(sys.argv[0] if argv0 is None else argv0)
    if called.name == "__main__.py" or not called.is_file():
        return f"{shlex.quote(sys.executable)} -m xpubuild"
    found = shutil.which(called.name)
    on_path = found is not None and Path(found).absolute() == called.absolute()
    return shlex.quote(called.name if on_path else str(called.absolute()))

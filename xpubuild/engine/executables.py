"""Finds the program of a command."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from xpubuild.engine.environment import usable_path
from xpubuild.errors import ToolchainError


def resolve_executable(name: str, env: Mapping[str, str], cwd: Path | None = None) -> str:
    """Return the full path of a program as the *child's* PATH finds it; ``./name`` counts from ``cwd``.

    Raises:
        ToolchainError: the program is not there, or is no executable file.
    """
    is_path = os.sep in name
    wanted = str(cwd / name) if is_path and cwd is not None else name
    path, _ = usable_path(env.get("PATH", os.defpath))
    found = shutil.which(wanted, path=path)
    if found is None and is_path and Path(wanted).exists():
        raise ToolchainError(
            f"'{name}' cannot be started",
            why="it exists, but is not an executable file",
            fix="make it executable, or use another program",
            commands=(f"chmod +x {shlex.quote(wanted)}",),
        )
    if found is None:
        on_path = "it is not on the PATH that xpubuild sets for this command"
        fix = "correct the path" if is_path else f"install {name}, or put its folder on PATH"
        if not is_path and name and ((cwd or Path()) / name).is_file():
            fix = f"to use the file in this folder, write ./{name}"
        raise ToolchainError(
            f"the program '{name}' was not found",
            why="there is no such file" if is_path else on_path,
            fix=fix,
            evidence={"PATH": env.get("PATH", "")},
        )
    return str(Path(found).absolute())

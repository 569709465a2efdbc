"""What a shell needs to work in a built workspace. Pure but for reading the receipt."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.build.request import Layout
from xpubuild.errors import UsageError


def read_receipt(root: Path) -> dict[str, Any]:
    """Return the receipt of a workspace.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    path = Layout(root).receipt
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(
            f"{root} is no finished workspace",
            why=f"it has no readable receipt ({error.strerror})",
            fix="install a recipe there first, or name the right folder with --workspace",
            commands=("xpubuild install quickstart",),
        ) from error
    except ValueError as error:
        raise UsageError(
            f"the receipt {path} is damaged",
            why=str(error),
            fix="run the same install again; it writes it anew",
        ) from error
    if not isinstance(document, dict):
        raise UsageError(
            f"the receipt {path} is damaged", fix="run the same install again; it writes it anew"
        )
    return document


def assignments(root: Path, caller: Mapping[str, str]) -> dict[str, str | None]:
    """Return variable -> value (None: unset) that enter the workspace from the caller's environment.

    The workspace's programs come first on PATH, once, however often it is entered.
    """
    layout = Layout(root)
    activation = read_receipt(root).get("activation", {})
    ours = [str(layout.env / "bin"), *activation.get("path_prefix", [])]
    rest = [item for item in caller.get("PATH", os.defpath).split(os.pathsep) if item not in ours]
    return {
        **{str(name): str(value) for name, value in activation.get("env", {}).items()},
        "VIRTUAL_ENV": str(layout.env),
        "XPUBUILD_WORKSPACE": str(root),
        "PATH": os.pathsep.join([*ours, *rest]),
        "PYTHONHOME": None,
    }

"""The variables that activate a workspace in a shell. Only reads the receipt and ``.pth`` files."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.errors import UsageError
from xpubuild.machine import envdiff
from xpubuild.machine.envdiff import EnvDiff, PathChange
from xpubuild.untrusted import json_value, read_bytes
from xpubuild.workspace.layout import Layout

#: Set in a shell that entered a workspace: what commands without a recipe or --workspace mean.
ENTERED = "XPUBUILD_ENTERED"
#: A receipt lists every command and package; that of a large build has 2 MB.
_MOST_BYTES = 256 << 20
#: What other modules read of a receipt without a look at its type.
_SHAPE: dict[str, Any] = {
    "summary": dict,
    "activation": dict,
    "verify": (dict, type(None)),
    "wheels": list,
    "prebuilt": list,
}
_UTF8 = re.compile(r"\.utf-?8(?:@|$)", re.IGNORECASE)


def read_receipt(root: Path) -> dict[str, Any]:
    """Return the receipt of a workspace.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    path = Layout(root).receipt
    try:
        document = json_value(read_bytes(path, _MOST_BYTES))
    except OSError as error:
        raise UsageError(
            f"{root} is not a finished workspace",
            why=f"it has no readable receipt ({error.strerror})",
            fix="install a recipe there first, or pass the right folder with --workspace",
            commands=("xpubuild install quickstart",),
        ) from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(document, dict):
        raise _damaged(path, "it is no JSON object")
    for field, kind in _SHAPE.items():
        value = document.get(field)
        if field in document and not isinstance(value, kind):
            raise _damaged(path, f"{field} has another type than xpubuild writes")
        if isinstance(value, list) and not all(isinstance(item, dict) for item in value):
            raise _damaged(path, f"an item of {field} is no JSON object")
    return document


def _damaged(path: Path, why: str) -> UsageError:
    fix = "run the same install again, which writes the receipt again"
    return UsageError(f"the receipt {path} is damaged", why=why, fix=fix)


def _captured(root: Path, receipt: Mapping[str, Any]) -> EnvDiff:
    """Return what oneAPI's scripts changed when the workspace was built; nothing in a build for the CPU."""
    captured = receipt.get("activation", {}).get("oneapi")
    try:
        return envdiff.from_json(captured) if captured else EnvDiff()
    except ValueError as error:
        raise _damaged(Layout(root).receipt, str(error)) from error


def difference(
    root: Path, receipt: Mapping[str, Any], caller: Mapping[str, str] | None = None, *, oneapi: bool = True
) -> EnvDiff:
    """Return what entering the workspace changes; without a caller whatever was set before, as for modules.

    Without ``oneapi`` only what is the workspace's own: modules of the site have the rest.
    """
    base, env = _captured(root, receipt) if oneapi else EnvDiff(), Layout(root).env
    path = base.paths.get("PATH", PathChange())
    first = (str(env / "bin"), *path.prepend)
    own = {**needed_locale(env, caller or {}), "VIRTUAL_ENV": str(env), ENTERED: str(root)}
    return EnvDiff(
        set={**base.set, **own},
        unset=(*base.unset, "PYTHONHOME"),
        paths={**base.paths, "PATH": PathChange(first, path.append, path.remove)},
    )


def assignments(root: Path, caller: Mapping[str, str]) -> dict[str, str | None]:
    """Return variable -> value (None: unset) that enter the workspace from the caller's environment.

    The workspace's programs come first on PATH, once, however often it is entered.
    """
    caller = {"PATH": os.defpath, **caller}
    return envdiff.assignments(difference(root, read_receipt(root), caller), caller)


def environment(root: Path, caller: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's environment as it is in the workspace."""
    values = {**caller, **assignments(root, caller)}
    return {name: value for name, value in values.items() if value is not None}


def needed_locale(env: Path, caller: Mapping[str, str]) -> dict[str, str]:
    """Return the variable to set so that the Python of ``env`` starts and finds its editable installs.

    An editable install leaves a ``.pth`` file with the path of the sources. Before Python 3.12.4 ``site``
    reads it in the encoding of the locale (python/cpython issue 77102), whatever UTF-8 mode says: under
    LC_ALL=C the interpreter ends in UnicodeDecodeError before it runs anything, under Latin-1 it looks in a
    folder of another name. C itself, where LC_ALL does not insist on it, is made UTF-8 (PEP 538).
    Nothing where the caller's locale will do, or where no ``.pth`` file needs it.
    """
    name = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if caller.get(name)), None)
    locale = caller[name] if name is not None else "C"
    if _UTF8.search(locale) or (locale in ("C", "POSIX") and name != "LC_ALL"):
        return {}
    for path in env.glob("lib/python*/site-packages/*.pth"):
        with contextlib.suppress(OSError):
            if not path.read_bytes().isascii():
                return {"LC_ALL" if name == "LC_ALL" else "LC_CTYPE": "C.UTF-8"}
    return {}

"""Finds the program uv, which is installed with xpubuild."""

from __future__ import annotations

import importlib.metadata
import shlex
import sys

from xpubuild.frozen import frozen


@frozen
class Program:
    """The program uv; where it cannot be used, ``why`` says that, and ``remedy`` is a command to mend it."""

    path: str = ""
    version: str = ""
    why: str = ""
    remedy: str = ""


def find_uv() -> Program:
    """Return the uv of the interpreter that runs xpubuild; none of ``PATH``, which may be of any version."""
    try:
        from uv import find_uv_bin  # noqa: PLC0415 - it may be missing where somebody left out dependencies

        return Program(find_uv_bin(), importlib.metadata.version("uv"))
    except (ImportError, FileNotFoundError):
        remedy = shlex.join([sys.executable, "-m", "pip", "install", "uv"])
        return Program(why="uv is not installed beside xpubuild", remedy=remedy)

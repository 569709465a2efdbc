"""Small trees of files, and programs of a few lines of shell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def lay(root: Path, files: Mapping[str, str]) -> Path:
    """Write files below a folder; return the folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def script(path: Path, text: str) -> Path:
    """Write a program for the shell; return its path."""
    lay(path.parent, {path.name: f"#!/bin/sh\n{text}\n"})
    path.chmod(0o755)
    return path

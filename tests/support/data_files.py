"""Data files that say what the program does: a test compares them, a make target rewrites them on purpose."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

DATA = Path(__file__).resolve().parent.parent / "data"


def dumped(document: Any) -> str:
    """Return a document as these files have it: in its own order, short lists and mappings on one line."""
    return yaml.safe_dump(document, sort_keys=False, width=108, default_flow_style=None, allow_unicode=True)


def loaded(path: Path) -> Any:
    """Return the document of such a file."""
    # The C loader is ten times faster where libyaml is there.
    return yaml.load(path.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506


def placed(value: Any, places: Mapping[str, str]) -> Any:
    """Return a document with the names of places instead of the places, in keys too; in the order given."""
    if isinstance(value, dict):
        return {placed(key, places): placed(item, places) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [placed(item, places) for item in value]
    if isinstance(value, str):
        for place, name in places.items():
            value = value.replace(place, name)
    return value


def compare(stored: str, made: str, command: str) -> None:
    """Fail with the difference between what a file says and what the program does now."""
    lines = difflib.unified_diff(
        stored.splitlines(), made.splitlines(), "the file", "the program", lineterm="", n=6
    )
    text = "\n".join(lines)
    if text:
        words = f"If this is meant: {command}, and read the difference before it is committed"
        pytest.fail(f"{text}\n\n{words}", pytrace=False)


def rewrite(folder: Path, texts: Mapping[str, str]) -> None:
    """Write ``<name>.yaml`` for each text, and remove the files that have none."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.yaml"):
        if path.stem not in texts:
            path.unlink()
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, "utf-8")

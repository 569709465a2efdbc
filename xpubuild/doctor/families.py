"""The failure families of explain that checks of doctor detect: reads ``families.yaml``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from xpubuild.safe_yaml import read_yaml


@functools.cache
def families() -> Mapping[str, list[str]]:
    """Return family -> ids of the checks that detect it, in the order of the file."""
    text = Path(__file__).with_name("families.yaml").read_text("utf-8")
    found: Mapping[str, list[str]] = read_yaml(text)["families"]
    return found


def families_of(check: str) -> list[str]:
    """Return the names of the families that a check detects."""
    return [name for name, checks in families().items() if check in checks]

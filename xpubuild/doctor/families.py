"""The failure families as doctor sees them: reads ``families.yaml``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.safe_yaml import read_yaml


@functools.cache
def families() -> Mapping[str, Mapping[str, Any]]:
    """Return name -> ``about``, ``checks`` that detect it, ``beyond``: what none detects, why."""
    rows = read_yaml(Path(__file__).with_name("families.yaml").read_text("utf-8"))["families"]
    return {name: {"checks": [], "beyond": [], **row} for name, row in rows.items()}


def families_of(check: str) -> list[str]:
    """Return the names of the families that a check detects."""
    return [name for name, family in families().items() if check in family["checks"]]

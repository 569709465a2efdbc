"""The failure families as doctor sees them: reads ``families.yaml``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml

_TABLE = Path(__file__).with_name("families.yaml")


@frozen
class Beyond:
    """What part of a family no check detects, and why."""

    what: str
    why: str


@frozen
class Family:
    """One family; ``about`` is half a sentence."""

    about: str
    beyond: tuple[Beyond, ...] = ()


@functools.cache
def families() -> Mapping[str, Family]:
    """Return name -> family, in the order of the file."""
    document = read_yaml(_TABLE.read_text("utf-8"))
    return {
        name: Family(
            entry["about"], tuple(Beyond(item["what"], item["why"]) for item in entry.get("beyond", ()))
        )
        for name, entry in document["families"].items()
    }

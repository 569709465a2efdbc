"""The failure families as doctor sees them: reads ``families.yaml``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml


@frozen
class Family:
    """One family: half a sentence, the ids of the checks that detect it, and (what, why) none detects."""

    about: str
    checks: tuple[str, ...]
    beyond: tuple[tuple[str, str], ...]


@functools.cache
def families() -> Mapping[str, Family]:
    """Return name -> family, in the order of the file."""
    document = read_yaml(Path(__file__).with_name("families.yaml").read_text("utf-8"))
    return {
        name: Family(
            row["about"],
            tuple(row.get("checks", ())),
            tuple((item["what"], item["why"]) for item in row.get("beyond", ())),
        )
        for name, row in document["families"].items()
    }


def families_of(check: str) -> list[str]:
    """Return the names of the families that a check detects."""
    return [name for name, family in families().items() if check in family.checks]

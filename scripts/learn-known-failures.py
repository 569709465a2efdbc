#!/usr/bin/env python3
"""Writes xpubuild/explain/known-failures.txt: the words of the failures in tests/data/explain.

One line for each: its thread, its families with the best first, the rule that explains it, its words.
Run it after samples or rules have changed: ``make regen`` does.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import yaml

from xpubuild.explain.normalise import plain
from xpubuild.explain.rank import rank
from xpubuild.explain.resembling import words
from xpubuild.explain.scan import scan

_ROOT = Path(__file__).resolve().parent.parent
_SAMPLES = ("kinds.yaml", "teaching.yaml", "compared.yaml")
_TARGET = _ROOT / "xpubuild" / "explain" / "known-failures.txt"
_HEAD = "# Made by scripts/learn-known-failures.py from tests/data/explain: thread, families, rule, words.\n"


def known_failures() -> str:
    """Return the text of the file."""
    folder = _ROOT / "tests" / "data" / "explain"
    entries = [item for name in _SAMPLES for item in yaml.safe_load((folder / name).read_text("utf-8"))]
    rows = {
        _row(item["sources"][0], item.get("families") or [item["family"]], item["text"]) for item in entries
    }
    return _HEAD + "".join(f"{row}\n" for row in sorted(rows))


def _row(url: str, families: list[str], text: str) -> str:
    told = words(plain(line.encode()) for line in text.splitlines())
    return "\t".join((url, " ".join(families), _rule(families, text), " ".join(sorted(told))))


def _rule(families: list[str], text: str) -> str:
    """Return the surest rule of the best family that has one."""
    outcome = scan(io.BytesIO(text.encode()))
    found = rank(outcome.matches, outcome.facts, outcome.first_error)
    ranked = sorted((item for item in found if item.family in families), key=_place(families))
    return ranked[0].id if ranked else ""


def _place(families: list[str]) -> Any:
    return lambda item: (families.index(item.family), -item.confidence)


if __name__ == "__main__":
    _TARGET.write_text(known_failures(), "utf-8")

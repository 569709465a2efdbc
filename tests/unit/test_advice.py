"""Data that advises is held against data that decides: what rules tell people to set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import xpubuild
from xpubuild.recipe.switches import switches

_ROOT = Path(xpubuild.__file__).parent
_FILES = (*sorted(_ROOT.glob("explain/rules/*.yaml")), _ROOT / "artifacts" / "gate_rules.yaml")
_SET = re.compile(r"\b([A-Z][A-Z0-9_]{2,})=(\w+)")
_ADVICE = re.compile(r"\s+(?:fix|next|commands|why|cause|- )")


def advised() -> Iterator[tuple[str, str, str]]:
    """Yield (name, value, the whole line) of each variable that a rule mentions with a value."""
    for path in _FILES:
        for line in path.read_text("utf-8").splitlines():
            if _ADVICE.match(line):
                yield from ((name, value, line.strip()) for name, value in _SET.findall(line))


@pytest.mark.parametrize(("name", "value", "line"), [item for item in advised() if item[0] in switches()])
def test_a_value_that_some_releases_misread_is_advised_with_the_release(
    name: str, value: str, line: str
) -> None:
    switch = switches()[name]
    assert switch.kind != "foreign", f"{name} does nothing: {switch.instead}"
    misread = [why for item in switch.misread for why in switch.misreadings(value, item.last or item.first)]
    assert not misread or re.search(r"\b2\.\d+\b", line), f"{name}={value}: {misread}"


def test_the_rules_mention_variables_at_all() -> None:
    assert {"USE_SYCLTLA", "USE_XCCL"} <= {name for name, _, _ in advised()}

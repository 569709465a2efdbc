"""Steps, plans and events as documents show them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from xpubuild.engine.events import Event, NullSink
from xpubuild.engine.model import Plan, Step
from xpubuild.engine.runner import needed_for

FILLERS: dict[str, Any] = {"float": 1.5, "str": "w\u00f6rd", "int": 3, "tuple[str, ...]": ("a",)}
KINDS = Event.__subclasses__()


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_can_be_written_as_json(kind: type[Event]) -> None:
    fields = {field.name: FILLERS.get(str(field.type), (("a", "b"),)) for field in dataclasses.fields(kind)}
    event = kind(**fields)
    document = json.loads(json.dumps(event.to_json()))
    words = "".join(f"-{c.lower()}" if c.isupper() else c for c in kind.__name__)[1:]
    assert document.pop("event") == words
    assert document.keys() == fields.keys()
    NullSink().emit(event)


def plan(*steps: Step) -> Plan:
    return Plan(recipe="r", workspace="/w", lock_digest="", steps=steps, fingerprints={})


def test_what_a_step_needs_is_found_through_all_levels() -> None:
    diamond = plan(
        Step(id="a", title=""),
        Step(id="x", title=""),
        Step(id="b", title="", needs=("a",)),
        Step(id="c", title="", needs=("a",)),
        Step(id="d", title="", needs=("c", "b")),
        Step(id="e", title="", needs=("d", "x")),
    )
    assert [step.id for step in needed_for(diamond, "d")] == ["a", "b", "c", "d"]
    assert [step.id for step in needed_for(diamond, "x")] == ["x"]
    assert needed_for(diamond, None) == diamond.steps
    with pytest.raises(KeyError, match="nothing"):
        needed_for(diamond, "nothing")

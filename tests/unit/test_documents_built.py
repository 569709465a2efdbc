"""Dataclasses from the documents that were made of them: nothing is converted, and what is wrong is named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from xpubuild.documents import built, plain


@dataclass(frozen=True)
class Part:
    size: int
    ref: str | None = None


@dataclass(frozen=True)
class Whole:
    kind: Literal["one", "two"]
    parts: tuple[Part, ...]
    good: bool = False


_WHOLE = Whole("two", (Part(1), Part(2, "v1")), good=True)


def test_what_was_written_is_read() -> None:
    assert built(Whole, plain(_WHOLE)) == _WHOLE
    assert built(Whole, {"kind": "one", "parts": [], "schema": "x"}) == Whole("one", ())
    assert built(Whole, {**plain(_WHOLE), "parts": [{"size": 1, "ref": "\udcff"}]}).parts[0].ref == "\udcff"


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"kind": "three"}, "'kind'"),
        ({"kind": ["one"]}, "'kind'"),
        ({"parts": {}}, "'parts'"),
        ({"parts": "x"}, "'parts'"),
        ({"parts": [{"ref": "x"}]}, "'size' is missing"),
        ({"parts": [{"size": "1"}]}, "'size'"),
        ({"parts": [{"size": True}]}, "'size'"),
        ({"parts": [{"size": 1.0}]}, "'size'"),
        ({"parts": [{"size": 1, "ref": 1}]}, "'ref'"),
        ({"parts": [1]}, "'parts'"),
        ({"good": 1}, "'good'"),
        ({"good": None}, "'good'"),
    ],
)
def test_another_type_is_named_and_not_converted(change: dict[str, Any], names: str) -> None:
    with pytest.raises(ValueError, match=names):
        built(Whole, {**plain(_WHOLE), **change})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"kind": "three", "parts": []}, "its field 'kind' is not valid: it has a value of another type"),
        ({"kind": "one", "parts": [{}]}, "its field 'parts' is not valid: its field 'size' is missing"),
        ({}, "its field 'kind' is missing"),
        ([], "it has a value of another type"),
    ],
)
def test_the_whole_reason_is_said(value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=r"^its|^it") as caught:
        built(Whole, value)
    assert str(caught.value) == why


def test_what_json_knows() -> None:
    assert plain({"a": (Path("/x"), [Part(1)]), "b": Part, "c": None}) == {
        "a": ["/x", [{"size": 1, "ref": None}]], "b": Part, "c": None,
    }  # fmt: skip

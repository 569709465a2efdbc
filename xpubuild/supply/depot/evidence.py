"""What the evidence of a step says of stores: the identity of its wheel, and the store it was taken from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: The name of the evidence that says by which identity a wheel was built.
IDENTITY = "build identity"
TAKEN = "taken from a store"


def taken_from(evidence: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the store that the wheel of a step was taken from, None where it was built."""
    return next((str(item["store"]) for item in evidence if item.get("proof") == TAKEN), None)


def identity_of(evidence: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the build identity of the wheel of a step, None where it has none."""
    found = (item.get("identity") for item in evidence)
    return next((value for value in found if isinstance(value, str)), None)

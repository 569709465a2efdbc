"""What is worth telling about a oneAPI environment although it can be used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """A warning: ``code`` is for programs, ``message`` for people."""

    code: str
    message: str
    evidence: dict[str, Any] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return self.message

    def to_json(self) -> dict[str, Any]:
        """Return the finding as it stands in the receipt."""
        return {"code": self.code, "message": self.message, "evidence": dict(self.evidence)}

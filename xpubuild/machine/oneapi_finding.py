"""Warnings about a usable oneAPI environment."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from xpubuild.frozen import frozen


@frozen
class Finding:
    """A warning: ``code`` is for programs, ``message`` for people."""

    code: str
    message: str
    evidence: dict[str, Any] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return self.message

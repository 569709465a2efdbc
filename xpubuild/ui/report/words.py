"""What is said of evidence, moments and results."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from xpubuild.ui import wording as show

_MOST_NAMED = 12
#: Word of a status -> how it is drawn, and a sign: colours alone do not tell all readers.
_LOOKS = {
    "good": ("✓", ("done", "complete", "pass", "passed", "ok")),
    "bad": ("✗", ("failed", "fail", "crash", "crashed", "timeout", "timed out", "error")),
    "some": ("!", ("interrupted", "partial", "cancelled", "known failure", "warning")),
    "now": ("…", ("running",)),
    "none": ("-", ("skip", "skipped", "to do", "not run")),
}


def look(status: str) -> str:
    """Return the class of a status: good, bad, some, now or none."""
    return next((name for name, (_, words) in _LOOKS.items() if status in words), "none")


def sign(status: str) -> str:
    """Return the sign of a status."""
    return _LOOKS[look(status)][0]


def moment(seconds: float | None) -> str:
    """Return local time with its offset; nothing where it is not known."""
    if seconds is None:
        return ""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        # What a damaged clock has written is no day of any year.
        return "unknown"


def took(seconds: float | None) -> str:
    """Return a duration; nothing where it is not known."""
    return show.duration(seconds) if seconds is not None else ""


def figures(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, value) of what a proof found, without what is too long for a line."""
    return [
        (name.replace("_", " "), _audit(value) if name == "audit" else _said(value))
        for name, value in evidence.items()
        if name != "proof"
    ]


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return _named(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        if any(isinstance(item, (Mapping, list)) for item in value):
            return f"{len(value)}"
        return _listed([str(item) for item in value])
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _named(value: Mapping[str, Any]) -> str:
    """Return ``torch 2.6.0, numpy 2.1``: of each entry its version, or what it is where that is short."""
    inner = [item.get("version", "") if isinstance(item, Mapping) else item for item in value.values()]
    return _listed([f"{name} {_said(item)}".rstrip() for name, item in zip(value, inner, strict=True)])


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _MOST_NAMED} more" if len(items) > _MOST_NAMED else ""
    return (", ".join(items[:_MOST_NAMED]) + more) or "none"


def _audit(audit: Any) -> str:
    if not isinstance(audit, Mapping) or "name" not in audit:
        return _said(audit)
    abi = f"C++11 ABI {audit['abi']}" if audit.get("abi") is not None else "no C++ ABI"
    objects, findings = (audit.get(name) for name in ("objects", "findings"))
    counts = (
        show.plural(len(items), noun)
        for items, noun in ((objects, "shared object"), (findings, "finding"))
        if isinstance(items, list)
    )
    return f"{audit['name']} {audit.get('version', '')}: {', '.join((abi, *counts))}"

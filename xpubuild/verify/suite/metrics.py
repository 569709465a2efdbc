"""The meaning of the end of a metric's name: its unit, and whether more is better."""

from __future__ import annotations

#: 1 where more is better, -1 where less is. Metrics with other endings are no speeds.
DIRECTIONS = {"_tflops": 1, "_gb_s": 1, "_per_s": 1, "_us": -1}


def direction(name: str) -> int:
    """Return 1 for a speed, -1 for a time, 0 for other metrics."""
    return next((sign for suffix, sign in DIRECTIONS.items() if name.endswith(suffix)), 0)


def share(name: str, value: float, wanted: float) -> float:
    """Return how much of ``wanted`` a speed or time reaches; 1 is just that, less is slower."""
    if value <= 0 or wanted <= 0:
        return 0.0
    return value / wanted if direction(name) >= 0 else wanted / value

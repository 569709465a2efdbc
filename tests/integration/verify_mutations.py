"""The mutations of verify_mutations*.yaml, with what runs before them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from integration import simulated_streams

#: Before a mutation that is for devices: ``M`` is the module of the backend.
_MODULE = "M = getattr(torch, {device!r})\n"


def load() -> list[dict[str, Any]]:
    """Return all mutations; ``devices`` says where one works: ``cpu`` unless it is marked otherwise."""
    found: list[dict[str, Any]] = []
    for path in sorted(Path(__file__).parent.glob("verify_mutations*.yaml")):
        mutations = yaml.safe_load(path.read_text("utf-8"))
        found += [{"devices": "cpu", "file": path.name, **mutation} for mutation in mutations]
    return found


def program(mutation: dict[str, Any], device: str) -> str:
    """Return the code that breaks the target; on the CPU, what it lacks is simulated before."""
    before = ""
    if mutation.get("simulated"):
        before = simulated_streams.CODE if device == "cpu" else _MODULE.format(device=device)
    return before + mutation["code"]

"""Captures and environments of the stand-in installations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from integration import oneapi_standin as standin

from xpubuild.machine.oneapi_capture import Capture, capture
from xpubuild.machine.oneapi_environment import OneapiEnvironment, oneapi_environment
from xpubuild.machine.oneapi_select import Mode, OneapiNeeds

V2025_1 = ">=2025.1,<2025.2"


def get(
    place: Path | None,
    versions: str = V2025_1,
    components: tuple[str, ...] = standin.NEEDED,
    *,
    caller: dict[str, str] | None = None,
    mode: Mode = "components",
) -> OneapiEnvironment:
    return oneapi_environment(
        OneapiNeeds(versions, components),
        explicit_root=place,
        caller_env={"HOME": "/root", **(caller or {})},
        mode=mode,
        deadline_s=60,
    )


def scripts(place: Path, names: Iterable[str] = standin.NEEDED) -> list[Path]:
    return [(place / name / "latest" / "env" / "vars.sh").resolve() for name in names]


def entry(place: Path) -> list[Path]:
    return [(place / "setvars.sh").resolve()]


def take(
    place: Path,
    files: list[Path] | None = None,
    *,
    caller: dict[str, str] | None = None,
    deadline_s: float = 60.0,
) -> Capture:
    environment = {"HOME": "/root", "USER": "me", **(caller or {})}
    return capture(scripts(place) if files is None else files, environment, place, deadline_s=deadline_s)

"""Captures from the stand-in installations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from integration import oneapi_standin as standin

from xpubuild.machine.oneapi_capture import Capture, Request, capture, clean_environment
from xpubuild.machine.oneapi_selection import Mode


def scripts(place: Path, names: Iterable[str] = standin.NEEDED) -> tuple[Path, ...]:
    return tuple((place / name / "latest" / "env" / "vars.sh").resolve() for name in names)


def take(
    place: Path,
    files: tuple[Path, ...] | None = None,
    *,
    mode: Mode = "components",
    caller: dict[str, str] | None = None,
    arguments: tuple[str, ...] = (),
    deadline_s: float = 60.0,
) -> Capture:
    request = Request(
        root=place.resolve(),
        mode=mode,
        scripts=scripts(place) if files is None else files,
        environment=clean_environment({"HOME": "/root", "USER": "me", **(caller or {})}),
        arguments=arguments,
    )
    return capture(request, deadline_s=deadline_s)


def entry(place: Path) -> tuple[Path, ...]:
    return ((place / "setvars.sh").resolve(),)

"""Environments of the stand-in installations."""

from __future__ import annotations

from pathlib import Path

from integration import oneapi_standin as standin

from xpubuild.machine.oneapi_environment import OneapiEnvironment, OneapiNeeds, oneapi_environment
from xpubuild.machine.oneapi_selection import Mode

V2025_1 = ">=2025.1,<2025.2"


def get(
    place: Path | None,
    versions: str = V2025_1,
    components: tuple[str, ...] = standin.NEEDED,
    *,
    caller: dict[str, str] | None = None,
    mode: Mode = "components",
    cache: Path | None = None,
) -> OneapiEnvironment:
    return oneapi_environment(
        OneapiNeeds(versions, components),
        explicit_root=place,
        caller_env={"HOME": "/root", **(caller or {})},
        cache_dir=cache,
        mode=mode,
        deadline_s=60,
    )


def codes(environment: OneapiEnvironment) -> list[str]:
    return [finding.code for finding in environment.warnings]

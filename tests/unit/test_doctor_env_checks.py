"""What holds of all checks of the environment: their sources, their texts, what they import."""

from __future__ import annotations

from pathlib import Path

from support.imports import imports_of

from xpubuild.doctor.checks import (
    build,
    caches,
    machine,
    network,
    oneapi,
    python,
    shadow,
    shadow_build,
    toolchain,
    torch,
)
from xpubuild.doctor.registry import shipped
from xpubuild.recipe.load import load
from xpubuild.supply.git.git import OLDEST

MODULES = (build, caches, machine, network, oneapi, python, shadow, shadow_build, toolchain, torch)


def test_constants_are_those_of_their_sources() -> None:
    base = load("2.13").recipe
    assert base.needs.disk_gib == build.DISK_GIB
    assert base.components["torch"].build.memory_gib_per_job == build.GIB_PER_JOB
    assert toolchain.OLDEST_GIT == OLDEST


def test_every_check_explains_itself() -> None:
    mine = {module.__name__ for module in MODULES} | {"xpubuild.doctor.checks.shadow_libstdcxx"}
    checks = [check for check in shipped() if check.ask.__module__ in mine]
    assert len(checks) >= 30
    for check in checks:
        assert len(check.explanation) > 100, check.id
        assert check.deadline_s <= 30
        assert "|" not in check.title


def test_nothing_here_imports_torch() -> None:
    for module in MODULES:
        path = Path(str(module.__file__))
        assert not [item for item in imports_of(module.__name__, path) if item.of("torch")]

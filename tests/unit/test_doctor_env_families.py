"""What holds of all checks: the failure families they foresee, their texts, constants of other packages."""

from __future__ import annotations

from xpubuild.doctor.checks import build, toolchain
from xpubuild.doctor.registry import families, shipped
from xpubuild.explain.rules import shipped_rules
from xpubuild.recipe.load import load
from xpubuild.supply.git.git import OLDEST

CHECKS = {check.id for check in shipped()}


def test_the_table_has_the_families_of_explain() -> None:
    assert set(families()) == {entry.family for entry in shipped_rules().rules}


def test_the_table_names_checks_that_there_are() -> None:
    named = {check for checks in families().values() for check in checks}
    assert len(named) > 40
    assert named <= CHECKS


def test_constants_are_those_of_their_sources() -> None:
    base = load("2.13").recipe
    assert base.needs.disk_gib == build.DISK_GIB
    assert base.components["torch"].build.memory_gib_per_job == build.GIB_PER_JOB
    assert toolchain.OLDEST_GIT == OLDEST


def test_every_check_explains_itself() -> None:
    for check in shipped():
        assert len(check.explanation) > 100, check.id
        assert "|" not in check.title

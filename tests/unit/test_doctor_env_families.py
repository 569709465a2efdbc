"""doctor: the failure families, the checks that foresee them."""

from __future__ import annotations

from xpubuild.doctor.families import families
from xpubuild.doctor.registry import shipped
from xpubuild.explain.load import shipped_rules

CHECKS = {check.id for check in shipped()}


def test_the_table_has_the_families_of_explain() -> None:
    signatures = shipped_rules().signatures
    rows = {
        row.family for entry in signatures for lookup in entry.lookup for row in lookup.rows if row.family
    }
    assert set(families()) == {entry.family for entry in signatures} | rows


def test_the_table_names_checks_that_there_are() -> None:
    named = {check for checks in families().values() for check in checks}
    assert len(named) > 40
    assert named <= CHECKS

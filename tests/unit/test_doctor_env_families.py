"""doctor: the failure families, the checks that foresee them."""

from __future__ import annotations

import pytest

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


def test_every_check_but_those_of_comfort_detects_a_family() -> None:
    named = {check for family in families().values() for check in family["checks"]}
    assert named <= CHECKS
    assert len(CHECKS - named) < 5


@pytest.mark.parametrize("name", families())
def test_each_family_has_a_check_or_a_reason(name: str) -> None:
    family = families()[name]
    assert family["beyond"] or family["checks"]
    assert all(item["what"] and item["why"] for item in family["beyond"])

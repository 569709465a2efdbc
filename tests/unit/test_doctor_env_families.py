"""doctor: the failure families, the checks that foresee them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.imports import ROOT

from xpubuild.doctor.families import families
from xpubuild.doctor.registry import shipped
from xpubuild.explain.load import shipped_rules

CHECKS = tuple(shipped())


def test_the_table_has_the_families_of_explain() -> None:
    signatures = shipped_rules().signatures
    rows = {
        row.family for entry in signatures for lookup in entry.lookup for row in lookup.rows if row.family
    }
    assert set(families()) == {entry.family for entry in signatures} | rows


def test_checks_name_families_that_there_are() -> None:
    unknown = {check.id: name for check in CHECKS for name in check.families if name not in families()}
    assert not unknown


@pytest.mark.parametrize("name", families())
def test_each_family_has_a_check_or_a_reason(name: str) -> None:
    family = families()[name]
    assert family.beyond or any(name in check.families for check in CHECKS)
    assert all(item.what and item.why for item in family.beyond)


def page() -> str:
    argv = [
        sys.executable,
        "-c",
        "from docgen.families_page import page; import sys; sys.stdout.write(page())",
    ]
    environment = {"PYTHONPATH": f"{ROOT / 'scripts'}:{ROOT}", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        argv, env=environment, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_the_page_shows_every_family() -> None:
    text = page()
    for name in families():
        assert f"\n## {name}\n" in text
    rows = [line for line in text.splitlines() if line.startswith("| [`")]
    assert len(rows) > 40

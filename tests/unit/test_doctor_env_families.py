"""doctor: the failure families, the checks that foresee them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.imports import ROOT

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

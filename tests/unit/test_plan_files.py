"""What each step of a few plans hands on is what tests/data/plans says; ``make regen`` rewrites it."""

from __future__ import annotations

import pytest
from support.data_files import compare
from support.plan_files import FOLDER, PLANS, text_of


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_what_its_file_says(name: str) -> None:
    path = FOLDER / f"{name}.yaml"
    written = path.read_text("utf-8") if path.exists() else ""
    compare(written, text_of(name), "make regen")


def test_there_is_no_file_without_a_plan() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*PLANS}

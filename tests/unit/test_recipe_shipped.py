"""The recipes that ship are sound, and pin the embedded sources as they are."""

from __future__ import annotations

import pytest

from xpubuild.recipe.checked import check_recipes
from xpubuild.resources import recipes_dir


@pytest.mark.parametrize("path", sorted(recipes_dir().glob("*.yaml")), ids=lambda path: path.stem)
def test_no_problem_is_found(path: object) -> None:
    document = check_recipes([str(path)])
    assert document["recipes"][0]["problems"] == [], "after a change of ops: scripts/pin-embedded.py"

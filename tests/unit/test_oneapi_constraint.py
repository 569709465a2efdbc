"""Recipe constraints against folder names, which have two numbers and hide the patch release."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from xpubuild.errors import RecipeError
from xpubuild.machine.oneapi_constraint import may_satisfy, specifier


@pytest.mark.parametrize(
    ("folder", "wanted", "verdict"),
    [
        ("2025.1", ">=2025.1,<2025.2", True),
        ("2025.1", ">=2025.1.1,<2025.2", True),
        ("2025.1", ">2025.1,<2025.2", True),
        ("2025.1", "==2025.1.1", True),
        ("2025.1", "==2025.1.*", True),
        ("2025.1", "~=2025.1.3", True),
        ("2025.1", ">=2025.1.1,!=2025.1.1,<2025.1.2", False),
        ("2025.2", ">=2025.1,<2025.2", False),
        ("2025.0", ">=2025.1,<2025.2", False),
        ("2024.1", ">=2025.1", False),
        ("2026.0", ">=2026.0", True),
        ("2023.2.0", ">=2023.2.1", False),
        ("2023.2.1", ">=2023.2.1", True),
        ("latest", ">=2025.1", None),
        ("pytorch-gpu-dev-0.5", ">=2024.1", None),
    ],
)
def test_verdicts(folder: str, wanted: str, verdict: bool | None) -> None:
    assert may_satisfy(folder, SpecifierSet(wanted)) is verdict


@given(
    st.integers(0, 4),
    st.integers(0, 6),
    st.sampled_from([">=", "<=", ">", "<", "==", "!=", "~="]),
    st.integers(0, 6),
)
def test_a_folder_is_possible_exactly_when_one_of_its_patches_is(
    minor: int, bound: int, operator: str, micro: int
) -> None:
    wanted = SpecifierSet(f"{operator}2025.{minor}.{micro}", prereleases=True)
    patches = any(wanted.contains(f"2025.{bound}.{patch}") for patch in range(30))
    assert may_satisfy(f"2025.{bound}", wanted) is patches


def test_a_specifier_that_is_none_is_the_recipes_fault() -> None:
    with pytest.raises(RecipeError) as caught:
        specifier("2025.1 or newer")
    assert caught.value.exit_code == 20
    assert ">=2025.1,<2025.2" in caught.value.fix

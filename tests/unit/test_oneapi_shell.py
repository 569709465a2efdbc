"""Assignments as shell text, by their form; real shells read them in the integration tests."""

from __future__ import annotations

import pytest

from xpubuild.machine.oneapi_shell import bash_lines, fish_lines


def test_bash() -> None:
    assert bash_lines({"B": "it's", "A": None, "C": "plain"}) == (
        "unset A\nexport B='it'\"'\"'s'\nexport C=plain\n"
    )


def test_fish() -> None:
    assert fish_lines({"B": "it's \\", "A": None, "PATH": "/a b:/c"}) == (
        "set -e A\nset -gx B 'it\\'s \\\\'\nset -gx PATH '/a b' '/c'\n"
    )


def test_nothing() -> None:
    assert bash_lines({}) == fish_lines({}) == ""


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "BASH_FUNC_f%%", "A\n", "é"])
def test_names_a_shell_does_not_take(name: str) -> None:
    for lines in (bash_lines, fish_lines):
        with pytest.raises(ValueError, match="cannot be a shell variable"):
            lines({name: "x"})


def test_a_value_cannot_hold_nul() -> None:
    for lines in (bash_lines, fish_lines):
        with pytest.raises(ValueError, match="NUL"):
            lines({"A": "\0"})

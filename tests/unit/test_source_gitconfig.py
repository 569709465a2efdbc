"""Settings that are written without git are read by git as they were meant."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from xpubuild.supply.git.gitconfig import add_settings


def test_git_reads_what_was_written(tmp_path: Path) -> None:
    pairs = [
        ("core.autocrlf", "false"),
        ("remote.origin.url", 'https://h/a "b" \\c;d#e\tü'),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ('submodule.third_party/x.y "z" \\.url', "  blanks around  "),
        ("core.worktree", "../../../caf\udce9"),
    ]
    add_settings(tmp_path, pairs)
    for key, value in pairs:
        said = subprocess.run(
            ["git", "config", "-z", "--file", tmp_path / "config", "--get", key],
            capture_output=True,
            check=True,
        )
        assert said.stdout == value.encode("utf-8", "surrogateescape") + b"\0"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("core.x", "a\nb"),
        ("a.b\n[evil].c", "x"),
        ("core", "x"),
        ("core.", "x"),
        ("a b.c", "x"),
        ("core.x", "\0"),
    ],
)
def test_what_the_format_cannot_hold_is_an_error(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"setting|set to"):
        add_settings(tmp_path, [(key, value)])
    assert not (tmp_path / "config").exists()

"""A host without oneAPI: the error says how to get it, and what this host can build as it is."""

from __future__ import annotations

import click
from packaging.specifiers import SpecifierSet

from xpubuild.cli.app import cli
from xpubuild.oneapi.advice import nothing_found


def test_a_release_for_xpu_names_what_can_be_built_here() -> None:
    error = nothing_found([("/opt/intel/oneapi", "the system's place")], SpecifierSet(">=2025.1"))
    assert error.exit_code == 40
    assert "--target cpu builds the same sources without oneAPI" in error.fix
    assert "matrix" in error.fix
    assert "doctor" in error.fix


def test_the_commands_of_xpubuild_that_it_names_exist() -> None:
    error = nothing_found([], SpecifierSet(">=2025.1"))
    ours = [command.split()[1:] for command in error.commands if command.startswith("xpubuild ")]
    assert ours == [
        ["recipes", "matrix", "--here", "--target", "cpu"],
        ["doctor", "--profile", "build"],
    ]
    for words in ours:
        command: click.Command = cli
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None
            command = found
        command.make_context("x", words, resilient_parsing=False)

"""A host without oneAPI: the error says how to get it, and what this host can build as it is."""

from __future__ import annotations

import platform

import click
import pytest
from packaging.specifiers import SpecifierSet

from xpubuild.cli.app import cli
from xpubuild.machine.oneapi_advice import install_commands, nothing_found


def test_a_release_for_xpu_names_what_can_be_built_here() -> None:
    error = nothing_found([("/opt/intel/oneapi", "the system's place")], SpecifierSet(">=2025.1"))
    assert error.exit_code == 40
    assert "this host can build the same sources with --target cpu" in error.fix
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


PACKAGE = "intel-deep-learning-essentials-2025.1"
APT, DNF, ZYPPER = (f"sudo {line} install -y {PACKAGE}" for line in ("apt-get", "dnf", "zypper"))


@pytest.mark.parametrize(
    ("release", "commands", "repository"),
    [
        ({"ID": "ubuntu", "ID_LIKE": "debian"}, (APT,), "Intel's APT repository"),
        ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, (DNF,), "Intel's DNF repository"),
        ({"ID": "opensuse-leap", "ID_LIKE": "suse opensuse"}, (ZYPPER,), "Intel's Zypper repository"),
        ({"ID": "newer", "ID_LIKE": "other Debian"}, (APT,), "Intel's APT repository"),
        ({"ID": "nixos"}, (APT, DNF, ZYPPER), "Intel's APT, DNF or Zypper repository"),
        (None, (APT, DNF, ZYPPER), "Intel's APT, DNF or Zypper repository"),
    ],
)
def test_the_command_is_that_of_the_distribution(
    release: dict[str, str] | None,
    commands: tuple[str, ...],
    repository: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read() -> dict[str, str]:
        if release is None:
            raise FileNotFoundError("/etc/os-release")
        return release

    monkeypatch.setattr(platform, "freedesktop_os_release", read)
    monkeypatch.setattr("xpubuild.distribution.REPOSITORY_LISTS", ())
    wanted = SpecifierSet(">=2025.1,<2025.2")
    told = install_commands(wanted)
    assert told[-len(commands) :] == commands
    added = [line for line in told if "repos.intel.com/oneapi" in line]
    assert len(added) == (1 if len(commands) == 1 else 0), (
        "a known distribution is told how to add the repository"
    )
    error = nothing_found([], wanted)
    assert error.commands[: len(told)] == told
    assert all(command.startswith("xpubuild ") for command in error.commands[len(told) :])
    assert repository in error.fix

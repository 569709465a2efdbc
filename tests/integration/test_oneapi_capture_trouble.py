"""Scripts of oneAPI that fail, stop, hang or end the shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from integration.oneapi_captures import entry, scripts, take

from xpubuild.errors import ToolchainError


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api é"


@pytest.mark.parametrize(
    ("argument", "status", "why"),
    [
        ("--config=/nowhere/config.txt", 4, "missing or cannot be read"),
        ("--config={config}", 7, "default="),
        ("--help", 254, "help"),
        ("ia32", 255, "ia32"),
    ],
)
def test_statuses_of_setvars_that_leave_nothing(
    place: Path, tmp_path: Path, argument: str, status: int, why: str
) -> None:
    standin.build_root(place)
    config = standin.write(tmp_path / "config.txt", "default=latest\n")
    with pytest.raises(ToolchainError) as caught:
        take(place, entry(place), mode="setvars", arguments=(argument.format(config=config),))
    assert caught.value.exit_code == 40
    assert caught.value.evidence["status"] == status
    assert why in caught.value.why
    assert str(place.resolve() / "setvars.sh") in caught.value.what
    assert caught.value.fix


def test_status_250_is_a_warning(place: Path) -> None:
    standin.build_root(
        place, {**standin.BUNDLE_2025_1, "advisor": "2025.1"}, before={"advisor": standin.returns(1)}
    )
    captured = take(place, entry(place), mode="setvars")
    (warning,) = captured.warnings
    assert "250" in warning.message
    assert "reported a problem" in warning.message
    assert "CMPLR_ROOT" in captured.after


def test_a_component_scripts_own_status_is_a_warning(place: Path) -> None:
    """Many end with the status of their last test."""
    standin.build_root(place)
    standin.add_component(place, "pti", "0.12", after="[ -n '' ]")
    captured = take(place)
    assert [status.status for status in captured.statuses] == [0, 1, 0, 0, 0]
    assert [warning.code for warning in captured.warnings] == ["oneapi-script-status"]


def test_the_numbers_of_setvars_mean_nothing_in_a_component_script(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "pti", "0.12", after=standin.returns(3))
    assert [warning.evidence["status"] for warning in take(place).warnings] == [3]


def test_a_component_script_that_refuses(place: Path) -> None:
    standin.build_root(place, before={"umf": standin.returns(255)})
    with pytest.raises(ToolchainError) as caught:
        take(place)
    assert "umf" in caught.value.what
    assert "it did not run" in caught.value.why


def test_an_empty_installation_returns_0_and_sets_nothing(place: Path) -> None:
    """The status is taken for what it is; ``validate`` is what refuses this (test_oneapi_validate)."""
    place.mkdir()
    standin.add_setvars(place)
    captured = take(place, entry(place), mode="setvars")
    assert captured.statuses[0].status == 0
    assert captured.diff.names == {"ONEAPI_ROOT"}


def test_scripts_that_read_unset_variables_run_without_nounset(place: Path) -> None:
    standin.build_root(place)
    assert take(place, caller={"SHELLOPTS": "nounset"}).after["TCM_SEEN"] == ""


def test_a_script_that_stops_at_an_unset_variable(place: Path) -> None:
    standin.build_root(place, before={"umf": standin.NOUNSET})
    with pytest.raises(ToolchainError) as caught:
        take(place)
    assert caught.value.exit_code == 40
    assert str(scripts(place, ["umf"])[0]) in caught.value.what
    assert "STANDIN_NEVER_SET" in caught.value.what
    assert "set -u" in caught.value.why


@pytest.mark.parametrize("trouble", [standin.EXITS, standin.ERREXIT, "exec true", "kill -9 $$"])
def test_a_script_that_ends_the_shell(place: Path, trouble: str) -> None:
    standin.build_root(place, before={"ccl": trouble})
    with pytest.raises(ToolchainError) as caught:
        take(place)
    assert str(scripts(place, ["ccl"])[0]) in caught.value.what
    assert "ended the shell" in caught.value.what


def test_the_command_in_the_message_shows_where_a_script_ends(place: Path) -> None:
    standin.build_root(place, before={"ccl": standin.EXITS})
    with pytest.raises(ToolchainError) as caught:
        take(place)
    shown = subprocess.run(caught.value.commands[0], shell=True, capture_output=True, text=True, check=False)  # noqa: S602
    assert shown.returncode == 5
    assert shown.stderr.splitlines()[-1].endswith("+ exit 5")


def test_a_script_that_hangs(place: Path) -> None:
    standin.build_root(place, before={"mpi": standin.HANGS})
    with pytest.raises(ToolchainError) as caught:
        take(place, deadline_s=0.7)
    assert caught.value.exit_code == 40
    assert str(scripts(place, ["mpi"])[0]) in caught.value.what
    assert "timed out after 0.7 s" in caught.value.what


def test_a_script_that_asks_does_not_wait_for_an_answer(place: Path) -> None:
    standin.build_root(place, before={"compiler": 'read -r answer; export STANDIN_ANSWER="<$answer>"'})
    assert take(place).after["STANDIN_ANSWER"] == "<>"

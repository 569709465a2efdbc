"""Scripts of oneAPI that somebody else could have written are not sourced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from integration.oneapi_environments import get

from xpubuild.errors import ToolchainError, UsageError


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api é"


def test_a_script_that_its_group_can_write_is_refused(place: Path) -> None:
    standin.build_root(place)
    script = (place / "umf" / "0.10" / "env" / "vars.sh").resolve()
    script.chmod(0o664)
    with pytest.raises(ToolchainError) as caught:
        get(place)
    assert caught.value.exit_code == 40
    assert str(script) in caught.value.what
    assert "its group" in caught.value.what
    assert caught.value.commands == (f"chmod go-w '{script}'",)
    os.system(caught.value.commands[0])  # noqa: S605 - the fix works as printed
    assert get(place).compiler_version == "2025.1.1"


@pytest.mark.parametrize("folder", ["umf/0.10/env", "umf/0.10", "umf", "."])
def test_a_folder_above_a_script_that_everybody_can_write_is_refused(place: Path, folder: str) -> None:
    standin.build_root(place)
    (place / folder).chmod(0o757)
    with pytest.raises(ToolchainError) as caught:
        get(place)
    assert str((place / folder).resolve()) in caught.value.what
    assert "everybody" in caught.value.what


def test_a_folder_in_which_nobody_can_replace_others_entries_is_accepted(place: Path) -> None:
    standin.build_root(place)
    place.chmod(0o1777)
    assert get(place).compiler_version == "2025.1.1"


def test_what_setvars_would_source_is_looked_at_too(place: Path) -> None:
    standin.build_root(place, {**standin.BUNDLE_2025_1, "advisor": "2025.1"})
    (place / "advisor" / "2025.1" / "env" / "vars.sh").chmod(0o666)
    assert get(place).warnings == ()
    with pytest.raises(ToolchainError, match="advisor"):
        get(place, mode="setvars")


def test_what_a_toolkit_would_source_is_looked_at_too(place: Path) -> None:
    toolkit = standin.build_unified(place, "2025.1", [*standin.NEEDED, "advisor"])
    (toolkit / "etc" / "advisor" / "vars.sh").chmod(0o666)
    with pytest.raises(ToolchainError, match="advisor"):
        get(place, mode="unified")


@pytest.mark.needs("root")
def test_a_script_of_another_user_is_refused_until_that_user_is_named(place: Path) -> None:
    standin.build_root(place)
    script = (place / "umf" / "0.10" / "env" / "vars.sh").resolve()
    os.chown(script, 12345, 12345)
    with pytest.raises(ToolchainError) as caught:
        get(place)
    assert "belongs to 12345" in caught.value.what
    assert "XPUBUILD_TRUSTED_OWNERS" in caught.value.fix
    assert get(place, caller={"XPUBUILD_TRUSTED_OWNERS": "nobody, 12345"}).compiler_version == "2025.1.1"
    with pytest.raises(UsageError, match="no-such-account"):
        get(place, caller={"XPUBUILD_TRUSTED_OWNERS": "no-such-account"})

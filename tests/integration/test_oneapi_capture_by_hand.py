"""capture.sh as a person runs it, and the shell scripts under shellcheck."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from integration import oneapi_standin as standin

from xpubuild import resources

SCRIPT = resources.setvars_dir() / "capture.sh"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api é"


def by_hand(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": os.environ["PATH"], "HOME": "/root", **(env or {})}
    return subprocess.run(
        [str(SCRIPT), *arguments], capture_output=True, check=False, env=environment, input=b"typed\n"
    )


def test_by_hand_starts_over_with_a_clean_environment(place: Path) -> None:
    standin.build_root(place, before={"compiler": standin.ARGUMENTS})
    result = by_hand(
        str(place / "compiler" / "latest" / "env" / "vars.sh"),
        env={"CPATH": "/old", "SETVARS_COMPLETED": "1", "SHELLOPTS": "nounset:errexit", "no_proxy": "a b"},
    )
    assert result.returncode == 0, result.stderr
    records = result.stdout.split(b"\0")
    assert records[0] == b"#xpubuild-capture 1"
    assert records[-2:] == [b"#complete", b""]
    assert b"no_proxy=a b" in records
    assert b"STANDIN_ARGUMENTS=0:" in records
    assert not [record for record in records if record.startswith((b"CPATH=/old", b"SETVARS_COMPLETED"))]


def test_by_hand_a_script_that_exits_is_named(place: Path) -> None:
    script = standin.add_component(place, "compiler", "2025.1", before=standin.EXITS)
    result = by_hand(str(script))
    assert result.returncode == 5
    assert b"ended the shell; the list is not complete" in result.stderr
    assert not result.stdout.endswith(b"#complete\0")


@pytest.mark.needs("shellcheck")
@pytest.mark.parametrize("name", ["capture.sh", "activate.sh"])
def test_shell_scripts_are_clean(name: str) -> None:
    result = subprocess.run(
        ["shellcheck", str(resources.setvars_dir() / name)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout

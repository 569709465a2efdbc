"""Temporary files of commands: removed with them, and a full folder for them is what the error says."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.engine_plans import go, step
from support.engine import make_plan

from xpubuild.engine.failure import by_space, full_place, own_temporary
from xpubuild.errors import AuditError, BuildError, NoSpaceError


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "w"
    folder.mkdir()
    return folder


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder with a short name, as that for temporary files has."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


@pytest.mark.parametrize("end", ["exit 0", "exit 3", "kill -KILL $$"])
def test_what_a_command_leaves_among_temporary_files_goes_with_it(
    end: str, workspace: Path, temporary: Path
) -> None:
    text = f'mkdir "$TMPDIR/pip-unpack-x"; echo x > "$TMPDIR/cc1.s"; {end}'
    go(make_plan(workspace, step("a", text)))
    assert list(temporary.iterdir()) == []


def test_a_folder_with_a_long_name_is_used_as_it_is(tmp_path: Path) -> None:
    """Sockets in it would have no name: they have 108 bytes."""
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    with own_temporary({"TMPDIR": str(folder)}) as env:
        assert env["TMPDIR"] == str(folder)
    with own_temporary({"TMPDIR": "/nonexistent"}) as env:
        assert Path(env["TMPDIR"]).is_dir()


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "f"
    folder.mkdir()
    mount, umount = (shutil.which(name) or name for name in ("mount", "umount"))
    subprocess.run([mount, "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], check=True)
    try:
        (folder / "x").write_bytes(bytes(200 << 10))
        yield folder
    finally:
        subprocess.run([umount, str(folder)], check=True)


@pytest.mark.needs("mount")
@pytest.mark.parametrize(
    "said",
    ["connection broken by NewConnectionError", "cannot create temp file for here-document", "pip failed"],
)
def test_a_failure_for_lack_of_room_for_temporary_files_says_so(
    said: str, workspace: Path, full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(full))
    (error,) = go(make_plan(workspace, step("a", f"echo '{said}'; exit 1"))).errors
    assert type(error) is NoSpaceError
    assert str(full) in error.what
    assert said in error.why
    assert full_place([workspace, full]) == full


def test_room_is_no_excuse_for_other_failures(tmp_path: Path) -> None:
    assert full_place([tmp_path, "/nonexistent", "/proc"]) is None
    error = AuditError("x")
    assert by_space(error, Path("/")) is error
    failed = BuildError("x")
    assert by_space(failed, None) is failed

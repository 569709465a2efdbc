"""A PATH that leads to the current folder runs nothing that lies there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.cli import child

from xpubuild.engine.child import resolve_executable
from xpubuild.engine.environment import base_environment, usable_path
from xpubuild.errors import ToolchainError
from xpubuild.machine.compilers import locate

PLANTED = (
    "git", "gcc", "g++", "cc", "c++", "clang", "icpx", "icx", "cmake", "ninja", "sycl-ls", "ocloc", "rpm",
    "dpkg", "dpkg-query", "lspci", "quota", "lfs", "env", "pip", "python3", "uname", "getconf", "conda",
)  # fmt: skip


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with programs that say that they ran; return the file in which they do."""
    folder, told = tmp_path / "unpacked", tmp_path / "told"
    (folder / "bin").mkdir(parents=True)
    for place in (folder, folder / "bin"):
        for name in PLANTED:
            (place / name).write_text(f"#!/bin/sh\necho {name} >> '{told}'\necho 99.0\n")
            (place / name).chmod(0o755)
    monkeypatch.chdir(folder)
    return told


@pytest.mark.parametrize(("form", "named"), [(".:{}", "'.'"), ("{}:", "''"), (":bin:{}", "'', 'bin'")])
@pytest.mark.parametrize(
    "command", [("doctor", "--profile", "build", "--json"), ("plan", "quickstart", "--json")], ids=" ".join
)
def test_doctor_and_plan_run_no_program_of_the_current_folder_and_say_so(
    trap: Path, command: tuple[str, ...], form: str, named: str
) -> None:
    result = child(*command, PATH=form.format(os.environ["PATH"]))
    assert not trap.exists(), trap.read_text()
    assert f"{Path.cwd()}/" not in result.out
    assert result.status in (0, 10), result.err
    assert f"current folder ({named})" in result.err
    json.loads(result.out)


def test_the_warning_is_an_event_where_events_are_for_a_program(trap: Path) -> None:
    result = child(
        "doctor", "--only", "python.version", "--log-format", "jsonl", PATH=f".:{os.environ['PATH']}"
    )
    events = [json.loads(line) for line in result.err.splitlines()]
    assert events[0]["event"] == "notice"
    assert "current folder" in events[0]["text"]
    assert not trap.exists()


def test_a_path_without_such_elements_is_left_as_it_is(trap: Path) -> None:
    result = child("recipes", "list", PATH=os.environ["PATH"])
    assert result.err == ""
    assert usable_path("/a:/b:/a") == ("/a:/b:/a", ())


@pytest.mark.parametrize("path", [".", "", "::", "bin:."])
def test_of_a_path_with_nothing_else_the_systems_own_is_left(path: str) -> None:
    kept, _ = usable_path(path)
    assert base_environment({"PATH": path})["PATH"] == kept
    assert all(element.startswith("/") for element in kept.split(os.pathsep) if element)


def test_no_function_that_looks_for_programs_finds_one_there(trap: Path) -> None:
    for path in (".", "bin", f"{trap.parent}/nowhere:"):
        assert "icpx" not in locate(("icpx",), path)
        with pytest.raises(ToolchainError):
            resolve_executable("icpx", {"PATH": path})
    assert resolve_executable("./icpx", {"PATH": "/bin"}) == str(trap.parent / "unpacked" / "icpx")


def test_the_shell_that_enters_a_workspace_keeps_its_own_path(tmp_path: Path) -> None:
    (tmp_path / "journal.db").touch()
    (tmp_path / "receipt.json").write_text("{}")
    result = child("env", "--workspace", str(tmp_path), "--json", PATH=".:/bin")
    assert json.loads(result.out)["env"]["PATH"].split(":")[1] == ".", result.err
    assert result.err == ""

"""A PATH that leads to the current folder runs nothing that lies there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import click
import pytest
from support.cli import Xpubuild, child
from support.documents import check

from xpubuild.cli.app import cli
from xpubuild.cli.workspace import workspace_of
from xpubuild.engine.child import resolve_executable
from xpubuild.engine.environment import base_environment, usable_path
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.machine.compilers import locate
from xpubuild.workspace.activation import ENTERED

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


# ---- What every command has alike: -q, -v, --log-format; and what completes each of them


def leaves() -> list[tuple[str, click.Command]]:
    context = click.Context(cli)
    found = []
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", item) for sub, item in command.commands.items()]
        else:
            found.append((name, command))
    return [(name, command) for name, command in found if not name.startswith("plumbing")]


@pytest.mark.parametrize(("name", "command"), leaves(), ids=[name for name, _ in leaves()])
def test_each_command_has_the_same_options_for_what_is_shown(name: str, command: click.Command) -> None:
    words = {word: parameter for parameter in command.params for word in parameter.opts}
    assert {"-q", "--quiet", "-v", "--verbose", "--log-format"} <= words.keys()
    assert words["-q"] is words["--quiet"]
    assert words["-v"] is words["--verbose"]
    kind = words["--log-format"].type
    assert isinstance(kind, click.Choice)
    assert list(kind.choices) == ["rich", "plain", "github", "jsonl"]


def completed(words: str, typed: str) -> set[str]:
    env = {
        "_XPUBUILD_COMPLETE": "bash_complete",
        "COMP_WORDS": f"{words} {typed}",
        "COMP_CWORD": str(len(words.split())),
    }
    lines = child(**env).out.splitlines()
    return {line.partition(",")[2] for line in lines}


@pytest.mark.parametrize(
    ("words", "typed", "expected"),
    [
        ("xpubuild config", "comp", {"completion"}),
        ("xpubuild plan", "2.1", {"2.10", "2.11", "2.12", "2.13", "2.14", "2.15"}),
        ("xpubuild recipes show", "quick", {"quickstart"}),
        ("xpubuild doctor --only", "gpu.pres", {"gpu.present"}),
        ("xpubuild doctor --only", "driver,gpu.pres", {"driver,gpu.present"}),
        ("xpubuild verify --only", "import", {"import.torch"}),
        ("xpubuild status", "own", {"own-workspace"}),
        ("xpubuild plan --tar", "", set()),
        ("xpubuild plan --target", "c", {"cpu"}),
    ],
)
def test_completion(
    words: str, typed: str, expected: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "xpubuild" / "own-workspace").mkdir(parents=True)
    (tmp_path / "xpubuild" / "own-workspace" / "journal.db").touch()
    found = completed(words, typed)
    assert found >= expected
    assert expected == set() or all(item.startswith(typed) for item in found)


@pytest.mark.needs("zsh", "fish")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_its_shell(xpubuild: Xpubuild, tmp_path: Path, shell: str) -> None:
    document = check(xpubuild.json("config", "completion", shell), "completion")
    script = tmp_path / "script"
    script.write_text(xpubuild.ok("config", "completion", shell).out)
    assert script.read_text() == document["script"]
    option = "--no-execute" if shell == "fish" else "-n"
    subprocess.run([shell, option, str(script)], check=True, timeout=60)


# ---- In a shell that entered a workspace: that one by default, and a recipe that is named all the same


@pytest.fixture
def entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    workspace = tmp_path / "entered"
    workspace.mkdir()
    (workspace / "journal.db").touch()
    monkeypatch.setenv(ENTERED, str(workspace))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return workspace


def test_the_entered_one_is_meant_where_none_is_named(entered: Path) -> None:
    assert workspace_of(None) == entered


def test_a_named_recipe_is_not_the_entered_one(entered: Path) -> None:
    with pytest.raises(UsageError) as caught:
        workspace_of("2.8")
    assert "data/xpubuild/2.8" in caught.value.what

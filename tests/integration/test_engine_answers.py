"""What programs said is remembered, and not a moment longer than it holds: real programs, compiled here."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from xpubuild.engine import answers as module
from xpubuild.engine.answers import Answers, Decides, says_itself
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import QueryResult
from xpubuild.errors import ToolchainError
from xpubuild.supply.git.git import Git

_TOOL = """
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    FILE *starts = fopen(getenv("STARTS"), "a");
    fputs("x", starts);
    fclose(starts);
    puts("tool version VERSION");
    return STATUS;
}
"""
_LAUNCHER = """
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) { (void)count; return execv(getenv("REAL"), words); }
"""


def _built(place: Path, source: str) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    file = place.with_suffix(".c")
    file.write_text(source)
    draft = place.with_suffix(".new")
    subprocess.run(["gcc", "-o", draft, file], check=True)
    draft.replace(place)
    return place


def _tool(place: Path, version: str = "1.2.3", status: int = 0) -> Path:
    return _built(place, _TOOL.replace("VERSION", version).replace("STATUS", str(status)))


def _by_itself(result: QueryResult, program: Path) -> Sequence[str] | None:
    return says_itself(program, result.stdout.split())


@pytest.fixture(autouse=True)
def young(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of these tests are younger than what is remembered otherwise."""
    monkeypatch.setattr(module, "_SETTLED_NS", 0)


class _World:
    """A folder with a program, what is remembered of it, and how often programs were started."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "answers"
        self.program = root / "bin" / "tool"
        self.starts = root / "starts"
        self.env = {**base_environment(), "STARTS": str(self.starts)}
        self.decides: Decides = _by_itself

    def ask(self, **more: str) -> str:
        answers = Answers(self.folder)
        env = {**self.env, **more}
        return answers.probe([str(self.program), "--version"], env=env, decides=self.decides).stdout

    def started(self) -> int:
        return len(self.starts.read_text())


@pytest.fixture
def world(tmp_path: Path) -> _World:
    made = _World(tmp_path)
    _tool(made.program)
    return made


def test_a_program_is_started_once(world: _World) -> None:
    assert [world.ask(), world.ask()] == ["tool version 1.2.3\n"] * 2
    assert world.started() == 1


def test_another_program_in_its_place_is_asked(world: _World) -> None:
    world.ask()
    before = world.program.stat()
    _tool(world.program, "1.2.4")
    os.utime(world.program, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert world.program.stat().st_size == before.st_size
    assert world.ask() == "tool version 1.2.4\n"


@pytest.mark.parametrize(
    "change", [lambda file: file.write_text("other"), lambda file: file.unlink()], ids=["changed", "removed"]
)
def test_what_decides_it_beside_the_program(world: _World, change: Callable[[Path], None]) -> None:
    settings, missing = world.root / "settings", world.root / "missing"
    settings.write_text("value")
    world.decides = lambda _result, _program: [str(settings), str(missing)]
    world.ask()
    world.ask()
    assert world.started() == 1
    change(settings)
    world.ask()
    assert world.started() == 2
    missing.write_text("now it is there")
    world.ask()
    assert world.started() == 3


def test_a_launcher_and_a_script_are_asked_each_time(world: _World) -> None:
    real = world.program.rename(world.root / "real")
    _built(world.program, _LAUNCHER)
    assert [world.ask(REAL=str(real)), world.ask(REAL=str(real))] == ["tool version 1.2.3\n"] * 2
    assert world.started() == 2
    world.program.write_text(f"#!/bin/sh\n# tool version 1.2.3\nexec '{real}'\n")
    world.ask()
    world.ask()
    assert world.started() == 4


def test_what_fails_is_not_remembered(world: _World) -> None:
    _tool(world.program, status=1)
    world.ask()
    world.ask()
    assert world.started() == 2
    assert not world.folder.exists()


def test_a_program_that_has_just_changed_can_change_again(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SETTLED_NS", 10**18)
    answers = Answers(world.folder)
    for _ in range(2):
        answers.probe([str(world.program)], env=world.env, decides=_by_itself)
    assert world.started() == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.chmod(0o666),
        lambda file: file.write_text("{"),
        lambda file: file.write_text("[1]"),
        lambda file: file.write_text(file.read_text().replace("answer/1", "answer/0")),
        lambda file: file.write_text("[" * 100_000),
    ],
    ids=["of-others", "cut", "list", "schema", "deep"],
)
def test_what_cannot_be_believed_is_asked(world: _World, damage: Callable[[Path], None]) -> None:
    world.ask()
    (file,) = world.folder.iterdir()
    damage(file)
    assert world.ask() == "tool version 1.2.3\n"
    assert world.started() == 2


def test_no_value_of_the_environment_is_kept(world: _World) -> None:
    world.ask(HTTPS_PROXY="http://user:password@proxy")
    (file,) = world.folder.iterdir()
    assert "password" not in file.read_text()


def test_git_is_not_asked_twice_for_its_version(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    Git.open(env, Answers(tmp_path / "answers"))
    (kept,) = answers_in(tmp_path)
    told = json.loads(kept.read_text())
    kept.write_text(json.dumps(told | {"stdout": "git version 2.1.0"}))
    with pytest.raises(ToolchainError, match="or newer is needed"):
        Git.open(env, Answers(tmp_path / "answers"))


def answers_in(folder: Path) -> list[Path]:
    return list((folder / "answers").iterdir())

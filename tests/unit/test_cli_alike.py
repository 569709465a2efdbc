"""What every command has alike: -q, -v, --log-format; and what completes each of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
import pytest
from support.cli import Xpubuild, child
from support.documents import check

from xpubuild.cli.app import cli


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

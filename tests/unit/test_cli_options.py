"""Options, their variables in the environment, and what goes to which stream."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from xpubuild.cli.app import COMMANDS, cli

XPUBUILD = (sys.executable, "-m", "xpubuild")


def run(*arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **variables}
    return subprocess.run(
        [*XPUBUILD, *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=True, timeout=60
    )


def plan(*arguments: str, cwd: Path | None = None, **variables: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run("plan", *arguments, "--json", cwd=cwd, **variables).stdout)
    return document


def every_command() -> list[tuple[str, click.Command]]:
    context = click.Context(cli)
    found = []
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", item) for sub, item in command.commands.items()]
    return found


@pytest.mark.parametrize(
    ("name", "command"), every_command(), ids=lambda item: item if isinstance(item, str) else ""
)
def test_every_command_explains_itself(name: str, command: click.Command) -> None:
    assert command.help
    assert command.help.endswith((".", ")", "edits."))
    for option in command.params:
        # What plans call is described where the plan is made.
        if isinstance(option, click.Option) and not name.startswith("plumbing"):
            assert option.help, f"{name} {option.name} has no help"


def test_short_help_of_the_list_is_that_of_the_commands() -> None:
    for name, command in every_command():
        if name in COMMANDS and not command.hidden:
            assert command.short_help
            assert COMMANDS[name][1].startswith(command.short_help.rstrip(".")), name


def test_every_result_command_speaks_json() -> None:
    without = {
        name
        for name, command in every_command()
        if not isinstance(command, click.Group)
        and not name.startswith("plumbing")
        and not any(option.name == "as_json" for option in command.params)
    }
    assert without == set()


def test_a_relative_workspace_is_made_absolute(tmp_path: Path) -> None:
    folder = tmp_path / "ä b"
    folder.mkdir()
    assert plan("--workspace", "w s", cwd=folder)["workspace"] == str(folder / "w s")
    assert plan("--workspace", "~/w")["workspace"] == str(Path.home() / "w")


def test_the_default_workspace_is_per_user_and_recipe(tmp_path: Path) -> None:
    document = plan("quickstart", XDG_DATA_HOME=str(tmp_path))
    assert document["workspace"] == str(tmp_path / "xpubuild" / "quickstart")


def test_the_environment_gives_options_and_the_command_line_wins(tmp_path: Path) -> None:
    variables = {"XPUBUILD_WORKSPACE": str(tmp_path / "from env"), "XPUBUILD_JOBS": "1"}
    document = plan(**variables)
    assert document["workspace"] == str(tmp_path / "from env")
    assert document["summary"]["jobs"].startswith("1 (")
    assert plan("--workspace", str(tmp_path / "given"), **variables)["workspace"] == str(tmp_path / "given")


@pytest.mark.parametrize(
    "arguments", [("--without", "ops"), ("--without", "ops,ops"), ("--without", "ops", "--without", " ops ")]
)
def test_names_may_be_repeated_or_separated_by_commas(arguments: tuple[str, ...]) -> None:
    steps = {step["id"] for step in plan(*arguments)["steps"]}
    assert "torch" in steps
    assert not any(step.startswith("ops") for step in steps)


def test_names_in_the_environment() -> None:
    assert not any(step["id"].startswith("ops") for step in plan(XPUBUILD_WITHOUT="ops")["steps"])


def test_the_recipe_may_come_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("schema: 1\nname: site\ntitle: ours\nextends: quickstart\n")
    variables = {"XPUBUILD_RECIPES": str(tmp_path), "XPUBUILD_RECIPE": "site"}
    assert plan(**variables)["recipe"] == "site"
    assert plan("quickstart", **variables)["recipe"] == "quickstart"


def test_planning_makes_nothing(tmp_path: Path) -> None:
    before = sorted(Path.home().rglob("*"))
    plan("quickstart", "--workspace", str(tmp_path / "w"))
    run("plan", "quickstart", "--workspace", str(tmp_path / "w"))
    run("install", "quickstart", "--dry-run", "--workspace", str(tmp_path / "w"))
    assert not (tmp_path / "w").exists()
    assert sorted(Path.home().rglob("*")) == before


def test_a_plan_is_the_same_twice(tmp_path: Path) -> None:
    assert plan("--workspace", str(tmp_path / "w")) == plan("--workspace", str(tmp_path / "w"))


def test_what_the_caller_has_set_for_builds_does_not_change_the_plan(tmp_path: Path) -> None:
    noise = {
        "CFLAGS": "-O0",
        "CPATH": "/x",
        "CMAKE_PREFIX_PATH": "/x",
        "LD_LIBRARY_PATH": "",
        "MAX_JOBS": "7",
    }
    workspace = ("--workspace", str(tmp_path / "w"))
    assert plan(*workspace) == plan(*workspace, **noise)


def test_the_number_of_jobs_changes_no_fingerprint(tmp_path: Path) -> None:
    workspace = ("--workspace", str(tmp_path / "w"))
    one, two = (plan(*workspace, "--jobs", jobs) for jobs in ("1", "2"))
    assert [step["fingerprint"] for step in one["steps"]] == [step["fingerprint"] for step in two["steps"]]
    assert one != two


def test_the_script_is_bash_and_names_no_xpubuild(tmp_path: Path) -> None:
    script = tmp_path / "build it.sh"
    script.write_text(
        run("plan", "quickstart", "--format", "sh", "--workspace", str(tmp_path / "w s")).stdout
    )
    bash = shutil.which("bash") or "bash"
    subprocess.run([bash, "-n", str(script)], check=True, timeout=60)
    lines = [line for line in script.read_text().splitlines() if not line.lstrip().startswith("#")]
    assert not [line for line in lines if line.split()[:1] == ["xpubuild"] or "-m xpubuild" in line]


def test_json_leaves_standard_output_to_the_document(tmp_path: Path) -> None:
    for arguments in (("plan",), ("recipes", "list"), ("install", "--dry-run")):
        result = run(*arguments, "--json", XPUBUILD_WORKSPACE=str(tmp_path / "w"))
        json.loads(result.stdout)
        assert result.stderr == ""


def test_output_holds_no_escape_sequences_without_a_terminal() -> None:
    for arguments in (("plan",), ("recipes", "list"), ("recipes", "show", "quickstart"), ("--help",)):
        assert "\x1b" not in run(*arguments).stdout


def test_output_can_be_written_in_the_c_locale() -> None:
    run("recipes", "show", "quickstart", LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii:strict")

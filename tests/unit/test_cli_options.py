"""Options, their variables in the environment, and what goes to which stream."""

from __future__ import annotations

import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from support.cli import Xpubuild, child

from xpubuild.cli.app import cli
from xpubuild.install.options import Options


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a recipe the newest release that the host can build is meant; these tests are about options."""
    monkeypatch.setenv("XPUBUILD_RECIPE", "quickstart")


def plan(xpubuild: Xpubuild, *arguments: str, **variables: str) -> dict[str, Any]:
    """Return a plan with a fixed number of jobs: 'auto' depends on the memory that is free at the moment."""
    return xpubuild.json("plan", "--jobs", "2", *arguments, **variables)


def every_command() -> list[tuple[str, click.Command]]:
    context = click.Context(cli)
    found = []
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {sub}", item) for sub, item in command.commands.items()]
    return found


def test_what_plan_takes_from_install_decides_a_build() -> None:
    """An option about the results of install alone that plan took would end in an internal error."""
    own = {"form", "matrix", "output", "locked", "lock_file", "lock_policy"}
    named = {str(item.name) for item in dict(every_command())["plan"].params if item.expose_value}
    assert named - own <= {field.name for field in fields(Options)}


def test_every_command_and_option_explains_itself() -> None:
    silent = [name for name, command in every_command() if not command.help]
    silent += [
        f"{name} {option.opts[0]}"
        for name, command in every_command()
        for option in command.params
        # Plumbing is called by plans, not by people.
        if isinstance(option, click.Option) and not option.help and not name.startswith("plumbing")
    ]
    assert silent == []


def test_the_environment_gives_options_and_the_command_line_wins(xpubuild: Xpubuild, tmp_path: Path) -> None:
    variables = {"XPUBUILD_WORKSPACE": str(tmp_path / "from env"), "XPUBUILD_JOBS": "1"}
    document = xpubuild.json("plan", **variables)
    assert document["workspace"] == str(tmp_path / "from env")
    assert document["summary"]["jobs"].startswith("1 (")
    given = xpubuild.json("plan", "--workspace", str(tmp_path / "given"), **variables)
    assert given["workspace"] == str(tmp_path / "given")


@pytest.mark.parametrize(
    "arguments", [("--without", "ops"), ("--without", "ops,ops"), ("--without", "ops", "--without", " ops ")]
)
def test_names_may_be_repeated_or_separated_by_commas(xpubuild: Xpubuild, arguments: tuple[str, ...]) -> None:
    steps = {step["id"] for step in plan(xpubuild, *arguments)["steps"]}
    assert "torch" in steps
    assert not any(step.startswith("ops") for step in steps)


def test_the_recipe_may_come_from_the_environment(xpubuild: Xpubuild, tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text("schema: 1\nname: site\ntitle: ours\nextends: quickstart\n")
    variables = {"XPUBUILD_RECIPES": str(tmp_path), "XPUBUILD_RECIPE": "site"}
    assert plan(xpubuild, **variables)["recipe"] == "site"
    assert plan(xpubuild, "quickstart", **variables)["recipe"] == "quickstart"


def of_the_user() -> list[Path]:
    """Return what is at home, but for what any command may remember of this host: answers and hashes."""
    kept = Path.home() / ".cache" / "xpubuild"
    own = {kept.parent, kept, kept / "answers", *(kept / "answers").glob("*")}
    return sorted({*Path.home().rglob("*")} - own)


def test_planning_makes_nothing(xpubuild: Xpubuild, tmp_path: Path) -> None:
    before = of_the_user()
    workspace = ("--workspace", str(tmp_path / "w"))
    for arguments in (("plan", "--json"), ("plan",), ("plan", "--format", "sh"), ("install", "--dry-run")):
        xpubuild.ok(*arguments, *workspace)
    assert not (tmp_path / "w").exists()
    assert of_the_user() == before


def test_a_dry_run_shows_what_would_run(xpubuild: Xpubuild) -> None:
    every = xpubuild.json("install", "--dry-run")["steps"]
    some = xpubuild.json("install", "--dry-run", "--until", "toolchain")["steps"]
    assert [step["id"] for step in some] == ["env", "toolchain"]
    assert some == every[:2]
    wrong = xpubuild("install", "--dry-run", "--until", "zz")
    assert wrong.status == 2
    assert "the plan has no step 'zz'" in wrong.err


def test_a_plan_depends_on_nothing_that_the_caller_has_set_for_builds(xpubuild: Xpubuild) -> None:
    noise = {"CFLAGS": "-O0", "CPATH": "/x", "CMAKE_PREFIX_PATH": "/x", "MAX_JOBS": "7"}
    first = plan(xpubuild)
    assert plan(xpubuild) == first
    assert plan(xpubuild, **noise) == first


def test_the_script_is_bash_and_runs_no_xpubuild(xpubuild: Xpubuild, tmp_path: Path) -> None:
    script = tmp_path / "build it.sh"
    script.write_text(xpubuild.ok("plan", "--format", "sh", "--workspace", str(tmp_path / "w s")).out)
    subprocess.run(["bash", "-n", str(script)], check=True, timeout=60)
    lines = [line for line in script.read_text().splitlines() if not line.lstrip().startswith("#")]
    assert not [line for line in lines if line.split()[:1] == ["xpubuild"] or "-m xpubuild" in line]


def test_output_can_be_written_where_only_ascii_is_known() -> None:
    result = child("recipes", "show", "quickstart", LC_ALL="C", PYTHONIOENCODING="ascii:strict")
    assert result.status == 0, result.err

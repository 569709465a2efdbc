"""``xpubuild --help`` answers at once because it imports nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from xpubuild.cli.app import cli

HEAVY = {
    "rich", "yaml", "pydantic", "git", "requests", "jinja2", "elftools", "virtualenv", "psutil", "packaging",
    "platformdirs", "filelock", "sqlite3", "asyncio", "rattler",
}  # fmt: skip
PROGRAM = """
import json, sys
sys.argv = ["xpubuild", *sys.argv[1:]]
from xpubuild.__main__ import main
try:
    main()
except SystemExit as leave:
    status = leave.code
json.dump({"status": status, "modules": sorted(sys.modules)}, sys.stderr)
"""


def loaded(*arguments: str) -> tuple[str, set[str]]:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    report = json.loads(result.stderr)
    assert report["status"] == 0
    return result.stdout, {name.partition(".")[0] for name in report["modules"]}


@pytest.mark.parametrize("argument", ["--help", "--version", "-h"])
def test_help_and_version_import_nothing_heavy(argument: str) -> None:
    output, modules = loaded(argument)
    assert "xpubuild" in output
    assert not modules & HEAVY


def test_the_list_of_heavy_modules_can_catch_one() -> None:
    _, modules = loaded("recipes", "list")
    assert modules & HEAVY >= {"yaml", "pydantic"}


@pytest.mark.parametrize("command", sorted(cli.list_commands(click.Context(cli))))
def test_the_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    output, modules = loaded(command, "--help")
    assert f"xpubuild {command}" in output
    assert not modules & HEAVY


def test_a_plain_plan_imports_nothing_of_conda_served_mirrors_or_locks(tmp_path: Path) -> None:
    program = PROGRAM.replace(', "modules"', ', "all": sorted(sys.modules), "modules"')
    words = ("plan", "2.13", "--target", "cpu", "--json", "--workspace", str(tmp_path))
    argv = [sys.executable, "-c", program, *words]
    result = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    every = json.loads(result.stderr)["all"]
    assert "xpubuild.install.planner" in every
    needless = (
        "xpubuild.supply.conda.", "xpubuild.supply.depot.served", "xpubuild.install.lock_file", "requests",
    )  # fmt: skip
    assert not [name for name in every if name.startswith(needless)]

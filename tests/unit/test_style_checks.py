"""Every check of doctor has a test that brings it to a finding, and one in which it is ok."""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from integration.test_doctor_hosts_env import WRONG
from support.doctor_frame import a_context
from support.doctor_shows import shows
from support.gpu_hosts import ALL, WELL
from support.imports import ROOT

from xpubuild.cli.app import cli
from xpubuild.doctor.checks.gpu import gpu_present
from xpubuild.doctor.registry import arranged, shipped

TESTS = ROOT / "tests"


def shown_in(source: str) -> Iterator[tuple[str, str]]:
    """Yield (check, status) of each ``@shows`` of a test function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "shows":
                    status, *identifiers = map(ast.literal_eval, call.args)
                    yield from ((name, status) for name in identifiers)


@functools.cache
def shown() -> set[tuple[str, str]]:
    """Return what all tests show: by decorator, and in the tables of simulated hosts.

    ``test_doctor_hosts_env`` and ``test_doctor_hosts_gpu`` compare all that doctor finds with the tables.
    """
    files = (path for path in TESTS.rglob("test_*.py") if path != Path(__file__))
    found = {item for path in files for item in shown_in(path.read_text("utf-8"))}
    found |= {item for _, expected in WRONG.values() for item in expected.items()}
    found |= {(name, "fail") for host in ALL for name in host.expect}
    found |= {(name, "warn") for host in ALL for name in host.warns}
    return found | {(name, "ok") for names in WELL.values() for name in names}


@pytest.mark.parametrize("identifier", [check.id for check in arranged(shipped())])
def test_a_check_is_shown_with_a_finding_and_without(identifier: str) -> None:
    """See docs/how-to/add-a-doctor-check.md."""
    statuses = {status for name, status in shown() if name == identifier}
    assert "ok" in statuses, f"no test has @shows('ok', {identifier!r})"
    assert statuses & {"warn", "fail"}, f"no test has @shows('warn' or 'fail', {identifier!r})"


def test_what_is_shown_is_a_check() -> None:
    assert {name for name, _ in shown()} <= {check.id for check in shipped()}


def test_a_mention_shows_nothing(tmp_path: Path) -> None:
    """The decorator looks at what the check answered, whatever the test itself asserts."""

    @shows("ok", "gpu.present")
    def mentions() -> None:
        assert gpu_present.id == "gpu.present"

    @shows("fail", "gpu.present")
    def runs() -> None:
        gpu_present(a_context(tmp_path))  # an image has no devices: it is skipped

    for test in (mentions, runs):
        with pytest.raises(AssertionError, match=r"not shown by this test: .*gpu\.present"):
            test()
    assert list(shown_in("# @shows('ok', 'a.b')\ndef helper():\n    shows('ok', 'a.b')\n")) == []
    assert list(shown_in("@shows('ok', 'a.b', 'a.c')\ndef test_it():\n    pass\n")) == [
        ("a.b", "ok"),
        ("a.c", "ok"),
    ]


# ---- ``xpubuild --help`` answers at once because it imports nothing heavy


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


def loaded(*arguments: str, ends: tuple[int, ...] = (0,)) -> tuple[str, set[str]]:
    """Return the output of a command line, and all modules that it imported."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    report = json.loads(result.stderr)
    assert report["status"] in ends
    return result.stdout, set(report["modules"])


def heavy(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} & HEAVY


@pytest.mark.parametrize("argument", ["--help", "--version", "-h"])
def test_help_and_version_import_nothing_heavy(argument: str) -> None:
    output, modules = loaded(argument)
    assert "xpubuild" in output
    assert not heavy(modules)


def test_the_list_of_heavy_modules_can_catch_one() -> None:
    _, modules = loaded("recipes", "list")
    assert heavy(modules) >= {"yaml", "pydantic"}


@pytest.mark.parametrize("command", sorted(cli.list_commands(click.Context(cli))))
def test_the_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    output, modules = loaded(command, "--help")
    assert f"xpubuild {command}" in output
    assert not heavy(modules)


def test_a_plain_plan_imports_nothing_of_conda_served_mirrors_or_locks(tmp_path: Path) -> None:
    _, every = loaded("plan", "2.13", "--target", "cpu", "--json", "--workspace", str(tmp_path))
    assert "xpubuild.install.planner" in every
    needless = (
        "xpubuild.supply.conda.", "xpubuild.supply.depot.served", "xpubuild.install.lock_file", "requests",
    )  # fmt: skip
    assert not [name for name in every if name.startswith(needless)]


def test_a_doctor_without_a_recipe_imports_little() -> None:
    """It takes a second, half of which would be pydantic and rich: a recipe alone needs them."""
    _, modules = loaded("doctor", "--json", ends=(0, 10))
    assert heavy(modules) <= {"yaml", "elftools", "packaging", "psutil", "platformdirs"}
    _, modules = loaded("doctor", "--only", "gpu.present", ends=(0, 10))
    assert not modules & {"xpubuild.doctor.bundle", "xml.etree.ElementTree"}
    program = "import sys, xpubuild.machine.gpus; sys.exit('yaml' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

"""Editable installs in a folder with letters beyond ASCII, by a user whose shell says LC_ALL=C."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from xpubuild.engine.environment import base_environment
from xpubuild.workspace.activation import assignments, needed_locale

SETUP = "from setuptools import setup\nsetup(name='far', packages=['far'], package_dir={'': 'python'})\n"
CALLER = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a workspace with a component that is installed editable, as a plan does it."""
    root = tmp_path_factory.mktemp("wörk")
    package = root / "src/far/python/far"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("here = __file__\n")
    (root / "src/far/setup.py").write_text(SETUP)
    env = base_environment(CALLER)
    for argv in (
        [sys.executable, "-m", "virtualenv", "--no-download", "--setuptools", "bundle", str(root / "env")],
        [
            str(root / "env/bin/python"), "-m", "pip", "install", "--no-build-isolation", "--no-deps",
            "--no-index", "--disable-pip-version-check", "--editable", str(root / "src/far"),
        ],
    ):  # fmt: skip
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    (root / "receipt.json").write_text("{}")
    return root


def imported(workspace: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    argv = [str(workspace / "env/bin/python"), "-c", "import far; print(ascii(far.here))"]
    return subprocess.run(argv, env=dict(env), capture_output=True, text=True, check=False)


def entered(workspace: Path, caller: Mapping[str, str]) -> dict[str, str]:
    changes = assignments(workspace, caller)
    kept = {name: value for name, value in caller.items() if changes.get(name, "") is not None}
    return {**kept, **{name: value for name, value in changes.items() if value is not None}}


def test_what_xpubuild_starts_finds_it(workspace: Path) -> None:
    done = imported(workspace, base_environment(CALLER))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ascii(str(workspace / "src/far/python/far/__init__.py"))


@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"LANG": "C"}, {"LC_CTYPE": "POSIX"}, {}]
)
def test_what_an_entered_shell_starts_finds_it(workspace: Path, locale: dict[str, str]) -> None:
    done = imported(workspace, entered(workspace, {"PATH": "/usr/bin:/bin", **locale}))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ascii(str(workspace / "src/far/python/far/__init__.py"))


@pytest.mark.parametrize(
    ("caller", "wanted"),
    [
        ({"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}),
        ({"LC_ALL": "de_DE.ISO-8859-1", "LANG": "C"}, {"LC_ALL": "C.UTF-8"}),
        ({"LANG": "de_DE"}, {"LC_CTYPE": "C.UTF-8"}),
        ({"LC_CTYPE": "de_DE@euro", "LANG": "de_DE.UTF-8"}, {"LC_CTYPE": "C.UTF-8"}),
        ({"LANG": "C"}, {}),
        ({}, {}),
        ({"LC_ALL": "", "LANG": "de_DE.utf8"}, {}),
        ({"LC_ALL": "ca_ES.UTF-8@valencia"}, {}),
    ],
)
def test_only_a_locale_that_cannot_read_it_is_replaced(
    workspace: Path, caller: dict[str, str], wanted: dict[str, str]
) -> None:
    assert needed_locale(workspace / "env", caller) == wanted

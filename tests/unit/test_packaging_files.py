"""What git, ruff and the build backend leave out: nothing of the package."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from support.imports import PACKAGE, ROOT

from xpubuild import resources


def test_git_ignores_no_file_of_the_project() -> None:
    """A pattern such as 'build/' also matches a package of that name, and wheels then lack it in silence."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.fail("this test belongs to a checkout and needs git")
    paths = [
        str(path.relative_to(ROOT))
        for folder in (PACKAGE, ROOT / "recipes", ROOT / "scripts", ROOT / "docs", ROOT / ".ci")
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert len(paths) > 100
    argv = [git, "check-ignore", "--no-index", "--stdin"]
    result = subprocess.run(
        argv, cwd=ROOT, input="\n".join(paths), capture_output=True, text=True, check=False
    )
    assert result.stdout == ""


def test_ruff_looks_at_every_module() -> None:
    argv = [sys.executable, "-m", "ruff", "check", "--show-files", "xpubuild"]
    result = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    seen = set(result.stdout.split("\n"))
    assert {str(path) for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts} <= seen


def test_the_data_is_found_in_a_checkout() -> None:
    assert (resources.recipes_dir() / "quickstart.yaml").is_file()
    assert (resources.setvars_dir() / "capture.sh").is_file()
    assert (resources.ops_project_dir() / "CMakeLists.txt").is_file()
    assert (resources.suite_dir() / "run.py").is_file()

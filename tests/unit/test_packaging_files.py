"""What git, ruff and the build backend leave out: nothing of the package; the embedded sources are whole."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.imports import PACKAGE, ROOT

from xpubuild import resources
from xpubuild.resources import ops_project_dir


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


# ---- The embedded sources: three projects, each a submodule of the one before


PROJECT = ops_project_dir()
_TEXT = {".cpp", ".h", ".cmake", ".txt", ".md", ".py", ".toml", ".map"}


PLACES = (".", "third_party/fused", "third_party/fused/third_party/vecmath")


def _files() -> list[Path]:
    return [path for path in PROJECT.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_every_repository_is_a_cmake_project_that_requires_its_submodules() -> None:
    for place in PLACES:
        top = PROJECT / place / "CMakeLists.txt"
        assert re.search(r"^project\(", top.read_text("utf-8"), re.MULTILINE), top
    top_text = (PROJECT / "CMakeLists.txt").read_text("utf-8")
    assert all(f"require_submodule({place})" in top_text for place in PLACES[1:])


def test_sources_are_text_and_nothing_else() -> None:
    assert {path.suffix for path in _files()} <= _TEXT
    for path in _files():
        assert path.read_text("utf-8").endswith("\n"), path


def test_python_names_do_not_carry_the_product_into_the_target() -> None:
    for path in PROJECT.rglob("*.py"):
        assert not re.search(
            r"^\s*(from|import) xpubuild\b(?!_ops)", path.read_text("utf-8"), re.MULTILINE
        ), path

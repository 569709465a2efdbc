"""The embedded sources: three projects, each a submodule of the one before."""

from __future__ import annotations

import re
from pathlib import Path

from xpubuild.resources import ops_project_dir

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

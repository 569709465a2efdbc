"""The embedded sources: what the manifest says of them holds."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import yaml

from xpubuild.resources import ops_project_dir

PROJECT = ops_project_dir()
_TEXT = {".cpp", ".h", ".cmake", ".txt", ".md", ".py", ".toml", ".map"}


def _repositories() -> list[dict[str, str]]:
    manifest = yaml.safe_load((PROJECT.parent / "embedded.yaml").read_text("utf-8"))
    repositories: list[dict[str, str]] = manifest["repositories"]
    return repositories


def _files() -> list[Path]:
    return [path for path in PROJECT.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_every_repository_is_a_cmake_project_of_its_own() -> None:
    for repository in _repositories():
        top = PROJECT / repository["path"] / "CMakeLists.txt"
        assert re.search(r"^project\(", top.read_text("utf-8"), re.MULTILINE), top


def test_submodules_are_a_chain() -> None:
    paths = [PurePosixPath(repository["path"]) for repository in _repositories()]
    assert paths[0] == PurePosixPath(".")
    assert paths[1] in paths[2].parents


def test_cmake_requires_every_submodule() -> None:
    top = (PROJECT / "CMakeLists.txt").read_text("utf-8")
    for repository in _repositories()[1:]:
        assert f"require_submodule({repository['path']})" in top


def test_sources_are_text_and_nothing_else() -> None:
    assert {path.suffix for path in _files()} <= _TEXT
    for path in _files():
        assert path.read_text("utf-8").endswith("\n"), path


def test_python_names_do_not_carry_the_product_into_the_target() -> None:
    for path in PROJECT.rglob("*.py"):
        assert not re.search(
            r"^\s*(from|import) xpubuild\b(?!_ops)", path.read_text("utf-8"), re.MULTILINE
        ), path

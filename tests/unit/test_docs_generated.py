"""The generated pages and schemas are what the code says."""

from __future__ import annotations

import functools
import importlib.util
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.imports import PACKAGE, ROOT, all_imports, sources

from xpubuild.cli.table import OPTIONS, variable_of

GENERATOR = ROOT / "scripts" / "generate-docs.py"
# Between xpubuild and its own children, and inside the script that plan writes; no user sets them.
INTERNAL = {
    "XPUBUILD_ADMIT", "XPUBUILD_CLEAN", "XPUBUILD_END", "XPUBUILD_END_OF_FILE", "XPUBUILD_ERROR_FILE",
    "XPUBUILD_PROOF", "XPUBUILD_PROOF_SUITE", "XPUBUILD_STANDIN_INNER",
}  # fmt: skip


Generate = Callable[..., int]


@pytest.fixture(scope="module")
def generator() -> Iterator[ModuleType]:
    """The script, which makes the pages once, however often it is called."""
    spec = importlib.util.spec_from_file_location("generate_docs", GENERATOR)
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(GENERATOR.parent))
        spec.loader.exec_module(module)
        patch.setattr(module, "pages", functools.cache(module.pages))
        yield module


@pytest.fixture
def generate(generator: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Generate:
    """Run the script with these arguments and return its status."""

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", [str(GENERATOR), *arguments])
        return int(generator.main())

    return run


def test_the_generated_docs_are_up_to_date(generate: Generate, capsys: pytest.CaptureFixture[str]) -> None:
    status = generate("--check")
    assert status == 0, capsys.readouterr().err


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    for name in ("reference", "schema"):
        shutil.copytree(ROOT / "docs" / name, tmp_path / "dócs" / name)
    return tmp_path / "dócs"


def test_a_changed_a_lost_and_a_stray_page_are_seen_and_mended(
    docs: Path, generate: Generate, capsys: pytest.CaptureFixture[str]
) -> None:
    (docs / "reference" / "cli.md").write_text("changed")
    (docs / "schema" / "xpubuild.plan.1.json").unlink()
    (docs / "reference" / "old.md").write_text("stray")
    assert generate("--check", "--docs", str(docs)) == 1
    told = capsys.readouterr().err
    for name in ("reference/cli.md", "schema/xpubuild.plan.1.json", "reference/old.md"):
        assert f"docs/{name} is not what the code says" in told
    assert generate("--docs", str(docs)) == 0
    assert generate("--check", "--docs", str(docs)) == 0
    assert not (docs / "reference" / "old.md").exists()


def table_rows(page: str) -> list[list[str]]:
    text = (ROOT / "docs" / "reference" / page).read_text("utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@pytest.mark.parametrize("page", ["cli.md", "recipe.md", "environment.md", "exit-codes.md", "workspace.md"])
def test_nothing_is_listed_without_a_meaning(page: str) -> None:
    rows = table_rows(page)
    assert len(rows) > 5
    assert not [row for row in rows if not row[-1]]


def test_every_variable_in_the_source_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "environment.md").read_text("utf-8")
    text = "\n".join(path.read_text("utf-8") for path in sources())
    named = set(re.findall(r"\bXPUBUILD_[A-Z_]*[A-Z]\b", text)) - INTERNAL
    assert named >= {"XPUBUILD_RECIPES", "XPUBUILD_ENTERED"}
    assert not {name for name in named if f"`{name}`" not in page}


def test_every_variable_that_the_user_interface_asks_for_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "environment.md").read_text("utf-8")
    text = "\n".join(path.read_text("utf-8") for path in (PACKAGE / "ui").rglob("*.py"))
    asked = set(re.findall(r"(?:env\.get\(|flag\(env, )\"([A-Z_]+)\"", text))
    assert asked >= {"NO_COLOR", "CI", "TERM"}
    assert not {name for name in asked if f"`{name}`" not in page}


def test_the_code_has_every_variable_that_is_documented() -> None:
    text = "\n".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))
    options = {variable_of(key) for key in OPTIONS}
    for name, *_rest in table_rows("environment.md"):
        for variable in re.findall(r"`([A-Z_]+)`", name):
            generic = variable.startswith("XDG_")  # read by platformdirs
            assert generic or variable in options or f'"{variable}"' in text, variable


def test_the_picture_of_the_architecture_has_every_import(generator: ModuleType) -> None:
    """Each import is an arrow, or follows from the arrows; each arrow is an import and points down."""
    picture = generator.architecture_picture
    graph = picture.imports()
    found = {
        (item.module.split(".")[1], item.target.split(".")[1])
        for item in all_imports()
        if item.of("xpubuild") and "." in item.module and "." in item.target
    }
    of_packages = {(one, other) for one, other in found if {one, other} <= graph.keys() and one != other}
    assert of_packages == {(one, other) for one, others in graph.items() for other in others}
    arrows = picture.direct(graph)

    def reached(name: str) -> set[str]:
        return set(arrows[name]).union(*(reached(other) for other in arrows[name]))

    assert all(graph[name] <= reached(name) for name in graph)
    assert all(arrows[name] <= graph[name] for name in graph)
    row = {node: number for number, nodes in enumerate(picture.rows(graph)) for node in nodes}
    assert all(row[one] < row[other] for one, others in graph.items() for other in others)

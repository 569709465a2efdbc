"""Messages name pages by ``resources.docs_page``, so that they can be opened where xpubuild is installed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.imports import PACKAGE, ROOT, sources

from xpubuild import resources

PAGE = re.compile(r"\bdocs/[\w./-]*\.md")
#: The page of a check is data of the JSON document; its text names the command that prints the page.
ELSEWHERE = {"doctor/registry.py"}


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module that are no docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def pages_in_messages() -> Iterator[tuple[str, str]]:
    for path in sources():
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "docs_page" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("docs_page", "resources.docs_page"):
                (name,) = node.args
                assert isinstance(name, ast.Constant), f"{path}:{node.lineno}: name the page itself"
                yield path.relative_to(PACKAGE).as_posix(), str(name.value)


def test_no_message_names_a_page_that_only_a_checkout_has() -> None:
    named = [
        f"{path}:{line}: {text}"
        for path in sources()
        for line, text in strings(path)
        if PAGE.search(text) and path.relative_to(PACKAGE).as_posix() not in ELSEWHERE
    ]
    assert not named, "\n".join(named)


def test_data_that_is_shown_names_no_page_either() -> None:
    named = [
        path
        for path in PACKAGE.rglob("*.yaml")
        for line in path.read_text("utf-8").splitlines()
        if PAGE.search(line.partition("#")[0]) and "://" not in line
    ]
    assert not named


@pytest.mark.parametrize(("module", "name"), sorted(set(pages_in_messages())))
def test_pages_of_messages_exist_and_are_packaged(module: str, name: str) -> None:
    page = resources.docs_page(name)
    assert page == ROOT / "docs" / name
    assert page.is_file(), module
    folder = Path(name).parts[0]
    assert f'"docs/{folder}" = "xpubuild/_data/docs/{folder}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_there_are_messages_with_pages() -> None:
    assert len(list(pages_in_messages())) >= 4

"""What a person reads of documents, plans and runs, whole: the texts are those of tests/data/views.

``support.view_files`` says of each view which document it shows, and how.
"""

from __future__ import annotations

import importlib
import inspect
import io
import pkgutil

import pytest
from support import view_files
from support.data_files import compare
from support.view_files import FOLDER, NAMES, text_of

from xpubuild import ui
from xpubuild.ui import verify_view
from xpubuild.verify.model import CheckResult


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown(name: str) -> None:
    compare((FOLDER / f"{name}.txt").read_text("utf-8"), text_of(name), "make views")


def test_every_file_is_of_a_view() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*NAMES}


def test_every_view_of_a_document_is_compared() -> None:
    table = inspect.getsource(view_files)
    names = [module.name for module in pkgutil.iter_modules(ui.__path__) if module.name != "console"]
    modules = [importlib.import_module(f"xpubuild.ui.{name}") for name in names]
    views = [
        name
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and "document" in inspect.signature(function).parameters
    ]
    assert "status_view" in views
    assert [name for name in views if name not in table] == []


@pytest.mark.parametrize("quiet", [False, True])
def test_a_line_for_each_check_that_ends(quiet: bool) -> None:
    stream = io.StringIO()
    printer = verify_view.CheckPrinter(total=3, quiet=quiet, stream=stream)
    for status in ("pass", "fail", "skip"):
        printer.emit(CheckResult(f"a.{status}", "t", "a", status, 61.0, f"detail of {status}"))
    lines = {
        "pass": "[1/3] pass a.pass 1m 01s",
        "fail": "[2/3] fail a.fail 1m 01s: detail of fail",
        "skip": "[3/3] skip a.skip 1m 01s: detail of skip",
    }
    assert stream.getvalue().splitlines() == [lines["fail"]] if quiet else [*lines.values()]

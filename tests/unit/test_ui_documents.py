"""What a person reads of a document: each value that a view shows is in its text.

tests/data/views.yaml says of each view which values ``shows`` has, ``with`` which values the document is
filled. Documents come from their schemas. A value is shown if the text changes with it; a word must be in
the text too (of a digest, its beginning), but for those that ``decides`` how something is shown. No sentence
of a view is compared.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.filled import Filled

from xpubuild.errors import XpuBuildError
from xpubuild.ui import console, doctor_view, explain_view, lock_view, recipe_view, verify_view, views
from xpubuild.ui.check_view import check_view
from xpubuild.ui.error_text import render
from xpubuild.ui.fetch_view import fetch_view
from xpubuild.ui.final import final_view
from xpubuild.ui.matrix_view import markdown, matrix_view
from xpubuild.ui.parts import Facts, Part, Table
from xpubuild.ui.terminal import Terminal
from xpubuild.verify.model import CheckResult

_WORD = 12


def shown(parts: tuple[Part, ...]) -> str:
    """Return the text of parts, of which every value has a heading that no other one has."""
    for part in parts:
        names = [column.name for column in part.columns] if isinstance(part, Table) else []
        names += [name for name, _ in part.items] if isinstance(part, Facts) else []
        assert all(names)
        assert len(names) == len({*names})
    stream = io.StringIO()
    console.show(parts, stream, {})
    return stream.getvalue()


def _terminal() -> Terminal:
    return Terminal(io.StringIO(), live=False, color=False, unicode=False)


def _error(document: Any) -> str:
    error = XpuBuildError(
        document["what"], why=document["why"], fix=document["fix"], commands=document["commands"],
        log=Path(document["log"]), evidence=document["evidence"],
    )  # fmt: skip
    error.explanation = document["explanation"]
    return render(error, _terminal())


Text = Callable[[Any], str]
FETCH: Text = lambda d: shown(fetch_view(d))  # noqa: E731
#: Name in tests/data/views.yaml -> name of the document, how it is shown.
VIEWS: dict[str, tuple[str, Text]] = {
    "doctor": ("doctor", lambda d: doctor_view.doctor_text(d, _terminal())),
    "doctor -v": ("doctor", lambda d: doctor_view.doctor_text(d, _terminal(), verbose=True)),
    "doctor on GitHub": ("doctor", doctor_view.annotations_text),
    "doctor --list": ("doctor-checks", lambda d: shown(doctor_view.checks_view(d))),
    "doctor --list -v": ("doctor-checks", doctor_view.explanations_text),
    "verify": ("verify", lambda d: shown(verify_view.verify_view(d))),
    "verify --list": ("verify-checks", lambda d: shown(verify_view.checks_view(d))),
    "explain": ("explain", lambda d: shown(explain_view.explain_view(d))),
    "explain, not known": ("explain", lambda d: shown(explain_view.explain_view(d))),
    "explain, no error": ("explain", lambda d: shown(explain_view.explain_view(d))),
    "explain --list": ("explain-signatures", lambda d: shown(explain_view.signatures_view(d))),
    "status": ("status", lambda d: shown(views.status_view(d))),
    "check": ("check", lambda d: shown(check_view(d))),
    "clean": ("clean", lambda d: shown(views.clean_view(d))),
    "recipes list": ("recipes", lambda d: shown(recipe_view.recipes_view(d["recipes"]))),
    "recipes list, broken": ("recipes", lambda d: shown(recipe_view.recipes_view(d["recipes"]))),
    "recipes show": ("recipe", lambda d: shown(recipe_view.summary_view(d, "one"))),
    "recipes show -v": ("recipe", lambda d: shown(recipe_view.recipe_view(d))),
    "recipes check": ("recipes-check", lambda d: shown(views.check_view(d))),
    "audit": ("audit", lambda d: shown(views.audit_view(d["wheels"]))),
    "fetch": ("fetch", FETCH),
    "fetch --dry-run": ("fetch", FETCH),
    "fetch --dry-run, git": ("fetch", FETCH),
    "fetch --export": ("fetch", FETCH),
    "lock": ("written-lock", lambda d: shown(lock_view.written_view(d))),
    "verify-lock": ("verify-lock", lambda d: shown(lock_view.verified_view(d))),
    "matrix": ("matrix", lambda d: shown(matrix_view(d))),
    "matrix as Markdown": ("matrix", markdown),
    "matrix for a host": ("matrix", lambda d: shown(matrix_view(d))),
    "install": ("receipt", lambda d: shown(final_view(d, program="x"))),
    "error": ("error", lambda d: _error(d["error"])),
}
TABLE = yaml.safe_load((Path(__file__).parent.parent / "data" / "views.yaml").read_text("utf-8"))


def test_every_view_is_in_the_table() -> None:
    assert [*TABLE] == [*VIEWS]


@pytest.mark.parametrize("name", VIEWS)
def test_what_a_view_shows_of_a_document(name: str) -> None:
    (schema, text), row = VIEWS[name], TABLE[name]
    filled = Filled(schema, row.get("with", {}))
    before = text(filled.document)
    seen, lost = set(), set()
    for path, value, document in filled.changed():
        after = text(document)
        if after != before:
            seen.add(path)
            if isinstance(value, str) and value[:_WORD] not in after:
                lost.add(path)
    assert sorted(seen) == sorted(row["shows"])
    assert sorted(lost) == sorted(row.get("decides", [])), "other words than the document's are shown"


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

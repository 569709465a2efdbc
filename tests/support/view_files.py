"""What a person reads, whole: tests/data/views has the text of each view of a few documents.

The documents are made up from their schemas (``varied``). ``make views`` rewrites the files; a test compares.
"""

from __future__ import annotations

import copy
import io
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from support import (
    shown_checks,
    shown_commands,
    shown_configuration,
    shown_distributions,
    shown_events,
    shown_explanations,
    shown_jobs,
    shown_parts,
    shown_reports,
    shown_runs,
    shown_verdicts,
    shown_verify,
    shown_workspaces,
)
from support.data_files import DATA, dumped
from support.shown_runs import coded
from support.varied import Varied
from xpubuild.errors import XpuBuildError
from xpubuild.ui import (
    check_view,
    config_view,
    console,
    doctor_view,
    error_text,
    explain_view,
    fetch_view,
    image_view,
    jobs_view,
    lock_view,
    matrix_view,
    overview_view,
    recipe_view,
    rehearsal_view,
    rich_parts,
    step_summary,
    store_view,
    verify_view,
    views,
)
from xpubuild.ui.final import final_view
from xpubuild.ui.parts import Facts, Part, Table
from xpubuild.ui.report.page import page
from xpubuild.ui.report.view import written_view
from xpubuild.ui.terminal import Terminal
from xpubuild.workspace.trace import trace

FOLDER = DATA / "views"
Document = Any
Text = Callable[[Document], str]


class Sized(Terminal):
    """A terminal that has a size."""

    def size(self) -> tuple[int, int]:
        """Return columns and rows."""
        return (120, 24) if self.unicode else (80, 24)


PIPE = Terminal(io.StringIO(), live=False, color=False, unicode=False)
SCREEN = Sized(io.StringIO(), live=True, color=False, unicode=False)
WIDE = Sized(io.StringIO(), live=True, color=False, unicode=True)
COLOURED = Sized(io.StringIO(), live=True, color=True, unicode=True)


def shown(parts: Sequence[Part]) -> str:
    """Return parts as a pipe gets them, of which every value has a heading that no other one has."""
    for part in parts:
        names = [column.name for column in part.columns] if isinstance(part, Table) else []
        names += [name for name, _ in part.items] if isinstance(part, Facts) else []
        assert all(names)
    stream = io.StringIO()
    console.show(parts, stream, {})
    return stream.getvalue()


def _of(view: Callable[[Document], Sequence[Part]]) -> Text:
    return lambda document: shown(view(document))


def _drawn(view: Callable[[Document], Sequence[Part]], terminal: Terminal) -> Text:
    """Return how a terminal without colour shows a view: codes of tables are rich's own."""
    return lambda document: rich_parts.render(view(document), terminal)


def _error(document: Document) -> XpuBuildError:
    given = document["error"]
    error = XpuBuildError(
        given["what"], why=given["why"], fix=given["fix"], commands=given["commands"],
        log=Path(given["log"]) if given["log"] else None, evidence=given["evidence"],
    )  # fmt: skip
    error.explanation = given["explanation"]
    return error


def _summarised(document: Document) -> str:
    """Return what a job's page on GitHub shows of an error."""
    with tempfile.TemporaryDirectory() as folder:
        page_of_job = Path(folder) / "summary.md"
        step_summary.summarise_error(_error(document), {"GITHUB_STEP_SUMMARY": str(page_of_job)})
        return page_of_job.read_text("utf-8")


def _aged(document: Document) -> str:
    """Return the text of an overview whose times lie in the past by so many hours."""
    aged = copy.deepcopy(document)
    for row in aged["workspaces"]:
        for name in ("last_used", "verified"):
            row[name] = None if row[name] is None else time.time() - 3600 * row[name]
    return shown(overview_view.overview_view(aged))


class View(NamedTuple):
    """The name of a document, how it is shown, and from which values those of its paths are taken."""

    document: str
    text: Text
    given: Mapping[str, tuple[Any, ...]] = {}
    documents: int = 4


#: The same text in every time zone.
_MOMENT = time.mktime((2026, 1, 2, 3, 4, 5, 0, 0, -1))
_STARTED = tuple(_MOMENT + seconds for seconds in (0, 30, 4000, 4100))
_EXPLAINED = tuple(Varied("explain", number, {}).document for number in range(4))
_LINES = [{"line": 5, "text": "::text of a line"}, {"line": 6, "text": "another"}]
_SAID: tuple[dict[str, Any], ...] = (
    {"file": "a file", "lines": _LINES},
    {},
    {"lines": _LINES},
    {"lines": ["no line"]},
)
_STATUS: Mapping[str, tuple[Any, ...]] = {
    "locked_by": ({"pid": 7777, "command": "one command", "host": "h", "since": "now"}, None),
    "runs[].started": _STARTED,
    "steps[].started": _STARTED,
}
_LONG = " ".join(f"word{number}" for number in range(30))
_ERROR: Mapping[str, tuple[Any, ...]] = {
    "error.explanation": (_EXPLAINED[0], None, _EXPLAINED[1]),
    "error.evidence": _SAID,
    "error.what": (_LONG, "what"),
    "error.why": (f"why\n{_LONG}", ""),
    "error.commands[]": ("a command\nof two lines", _LONG),
}
_LIKE_ERROR: Mapping[str, tuple[Any, ...]] = {
    "checks[].detail": ("a detail", _LONG, "two\nlines"),
    "checks[].docs": ("docs/a-page.md", "https://example.invalid/page", ""),
}
_MATRIX: Mapping[str, tuple[Any, ...]] = {
    "releases[].components": (
        {
            "triton": {"dist": "one-triton", "version": "3.5.0"},
            "vision": {"dist": "vision", "version": "0.24"},
        },
        {"triton": {"dist": "another-triton", "version": None}},
        {"triton": {"dist": "one-triton", "version": "3.4.0"}, "vision": {"dist": "vision", "version": None}},
    ),
    "releases[].unknown": ([], ["needs.gcc", "needs.oneapi", "needs.gpus"], ["needs.cmake", "needs.drivers"]),
}
_ANSWER = {**_MATRIX, "situation?": (), "releases[].verdict?": ()}
_TABLES = {**_MATRIX, "situation": (None,)}
_RECIPE: Mapping[str, tuple[Any, ...]] = {
    "recipe.patches": ({"2.9.1": {}, "2.10.0": {}}, {}),
    "recipe.facts": (
        {
            "release": {"source": "a source", "note": "a note", "confidence": "verified"},
            "needs.*": {"source": "another source", "confidence": "inferred"},
        },
        {},
    ),
    "unknown": (["needs.gcc", "needs.drivers"], []),
}
_DEVICE: Mapping[str, tuple[Any, ...]] = {"device": ({"type": "xpu", "name": "a GPU"}, {"type": "cpu"}, {})}
_RECEIPT: Mapping[str, tuple[Any, ...]] = {
    "steps[].id": ("torch.wheel", "env", "torch"),
    "commands[].step": ("torch.wheel", "env", "else"),
    "prebuilt[].step": ("torch.fetch", "torch"),
    "prebuilt[].name": ("torch", "sympy"),
    "verify.checks[].status": ("fail", "pass", "skip", "crash"),
    "verify.status": ("fail", "pass"),
}
_FILE: Mapping[str, tuple[Any, ...]] = {"digest?": ()}
_CHECKED = {**_FILE, "action": ("check", "export", "import")}
_JOBS = {"folder": ("/a folder/of jobs",), "submit": ("/a folder/submit",)}
_REPORT: Mapping[str, tuple[Any, ...]] = {
    "created": (_MOMENT + 5000,),
    "runs[].started": _STARTED,
    "steps[].id": ("env", "torch.wheel", "ops.wheel", "verify"),
    "steps[].started": _STARTED,
    "steps[].duration_s": (20.0, 3900.0, None, 70.0),
    "commands[].step": ("env", "torch.wheel", "torch.wheel", "ops.wheel"),
    "commands[].started": _STARTED,
    "commands[].duration_s": (10.0, 90.0, 60.0, 40.0),
    "commands[].memory": ([[float(at), (at % 5) << 30] for at in range(15)], []),
    "builds[].step": ("torch.wheel", "ops.wheel", ""),
    "builds[].started": (_STARTED[1], _STARTED[2]),
    "builds[].span_s": (80.0, 50.0),
    "builds[].edges": (
        [{"output": f"{name}.{kind}", "start_s": 2.5 * at, "duration_s": 5.0 + at}
         for at, (name, kind) in enumerate((("a", "cpp.o"), ("b", "sycl.o"), ("lib", "so"), ("c", "stamp")))],
        [{"output": "one.o", "start_s": 0.0, "duration_s": 30.0}],
    ),
    "explanations[].explanation": _EXPLAINED,
}  # fmt: skip


def _page(document: Document) -> str:
    """Return the page of a report without its style."""
    before, _, after = page(document).partition("<style>")
    text = before + after.partition("</style>")[2]
    text = text if text.endswith("\n") else f"{text}\n"
    return text.replace(time.strftime("%z", time.localtime(_MOMENT)), "+0000")


#: The name of the file -> the view in it.
VIEWS: dict[str, View] = {
    "doctor": View("doctor", lambda d: doctor_view.doctor_text(d, PIPE), _LIKE_ERROR),
    "doctor-verbose": View("doctor", lambda d: doctor_view.doctor_text(d, PIPE, verbose=True), _LIKE_ERROR),
    "doctor-terminal": View("doctor", lambda d: doctor_view.doctor_text(d, SCREEN), _LIKE_ERROR),
    "doctor-annotations": View("doctor", doctor_view.annotations_text),
    "doctor-summary": View("doctor", lambda d: step_summary.markdown("doctor", doctor_view.summary_view(d))),
    "doctor-list": View("doctor-checks", _of(doctor_view.checks_view)),
    "doctor-list-verbose": View("doctor-checks", doctor_view.explanations_text),
    "verify": View("verify", _of(verify_view.verify_view), _DEVICE),
    "verify-quiet": View("verify", lambda d: shown(verify_view.verify_view(d, quiet=True))),
    "verify-summary": View("verify", lambda d: step_summary.markdown("verify", verify_view.summary_view(d))),
    "verify-list": View("verify-checks", _of(verify_view.checks_view)),
    "explain": View("explain", _of(explain_view.explain_view)),
    "explain-not-known": View(
        "explain", _of(explain_view.explain_view), {"findings[].confidence": (0.4, 0.1), "lines": (1, 0, 2)}
    ),
    "explain-list": View("explain-signatures", _of(explain_view.signatures_view)),
    "status": View("status", _of(views.status_view), _STATUS),
    "check": View(
        "check", _of(check_view.check_view), {"unowned": ([f"path {n}" for n in range(22)], ["one"], [])}
    ),
    "clean": View("clean", _of(views.clean_view)),
    "recipes-list": View("recipes", lambda d: shown(recipe_view.recipes_view(d["recipes"]))),
    "recipes-show": View("recipe", lambda d: shown(recipe_view.summary_view(d, "one")), _RECIPE),
    "recipes-show-verbose": View("recipe", _of(recipe_view.recipe_view), _RECIPE, 2),
    "recipes-check": View("recipes-check", _of(views.check_view)),
    "recipes-bump": View("recipes-bump", _of(views.bump_view)),
    "recipes-bump-written": View("recipes-bump", lambda d: shown(views.bump_view(d, "a file"))),
    "audit": View("audit", lambda d: shown(views.audit_view(d["wheels"]))),
    "wheel-repair": View("wheel-repair", lambda d: shown(views.repair_view(d["wheels"]))),
    "fetch": View("fetch", _of(fetch_view.fetch_view), {**_FILE, "action": ("fetch",)}),
    "fetch-dry-run": View("fetch", _of(fetch_view.fetch_view), {**_FILE, "action": ("dry-run",)}),
    "fetch-check": View("fetch", _of(fetch_view.fetch_view), _CHECKED),
    "lock": View("written-lock", _of(lock_view.written_view)),
    "verify-lock": View(
        "verify-lock",
        _of(lock_view.verified_view),
        {
            "differences[].old": ({"commit": "one", "ref": None}, "a text", None),
            "differences[].new": (["one wheel", "another"], {"wheels": ["a", "b"]}, 5),
        },
    ),
    "matrix": View("matrix", _of(matrix_view.matrix_view), _TABLES),
    "matrix-markdown": View("matrix", matrix_view.markdown, _TABLES),
    "matrix-host": View("matrix", _of(matrix_view.matrix_view), _ANSWER),
    "install": View("receipt", lambda d: shown(final_view(d, program="x")), _RECEIPT),
    "rehearse": View("rehearsal", _of(rehearsal_view.rehearsal_view)),
    "overview": View(
        "overview",
        _aged,
        {"workspaces[].last_used": (1, 30, None, 100), "workspaces[].verified": (30, 100, 1, None)},
    ),
    "clean-many": View("clean-many", _of(overview_view.many_view)),
    "store-list": View("store", _of(store_view.store_view)),
    "store-size": View("store-size", _of(store_view.size_view)),
    "store-check": View("store-check", _of(store_view.check_view)),
    "store-copy": View("store-copy", _of(store_view.copy_view)),
    "store-gc": View("store-gc", _of(store_view.collected_view)),
    "plan-jobs": View("planned-jobs", _of(jobs_view.planned_view), _JOBS),
    "status-jobs": View("jobs", _of(jobs_view.jobs_view), _JOBS),
    "image": View("image", _of(image_view.image_view), {"output": ("/a folder/a file",)}),
    "config": View(
        "config",
        _of(config_view.config_view),
        {"settings[].value": ("text", ["one", "another"], True, 2.5, None, False)},
    ),
    "config-check": View("config-check", _of(config_view.check_view)),
    "config-init": View("config-init", _of(config_view.written_view)),
    "report": View("report", lambda d: shown(written_view(d, Path("a page"), Path("a trace")))),
    "report-page": View("report", _page, _REPORT, 2),
    "report-trace": View("report", lambda d: dumped(trace(d)), _REPORT, 1),
    "error": View("error", lambda d: error_text.render(_error(d), PIPE), _ERROR),
    "error-terminal": View("error", lambda d: error_text.render(_error(d), SCREEN), _ERROR),
    "error-colour": View("error", lambda d: coded(error_text.render(_error(d), COLOURED)), _ERROR, 1),
    "doctor-colour": View("doctor", lambda d: coded(doctor_view.doctor_text(d, COLOURED)), _LIKE_ERROR, 1),
    "explain-terminal": View("explain", _drawn(explain_view.explain_view, SCREEN), {}, 1),
    "recipes-show-verbose-terminal": View("recipe", _drawn(recipe_view.recipe_view, SCREEN), _RECIPE, 1),
    "recipes-bump-wide": View("recipes-bump", _drawn(views.bump_view, WIDE), {}, 1),
    "status-wide": View("status", _drawn(views.status_view, WIDE), _STATUS, 1),
    "error-summary": View("error", _summarised, _ERROR, 1),
}
_TEXTS: dict[str, Callable[[], str]] = {
    name: text
    for module in (
        shown_checks, shown_commands, shown_configuration, shown_distributions, shown_events,
        shown_explanations, shown_jobs, shown_parts, shown_reports, shown_runs, shown_verdicts, shown_verify,
        shown_workspaces,
    )
    for name, text in module.TEXTS.items()
}  # fmt: skip
NAMES = (*VIEWS, *_TEXTS)


def text_of(name: str) -> str:
    """Return what a file holds: the texts of the documents of a view, or what is made for runs and jobs."""
    if name in _TEXTS:
        return _TEXTS[name]()
    view = VIEWS[name]
    texts = []
    for number in range(view.documents):
        text = view.text(Varied(view.document, number, view.given).document)
        texts.append(f"==== document {'abcd'[number]} of {view.document}\n{text}")
    return "".join(dict.fromkeys(texts))


def rewrite() -> None:
    """Write every file, and remove those that no view has."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.iterdir():
        if path.stem not in NAMES:
            path.unlink()
    for name in NAMES:
        (FOLDER / f"{name}.txt").write_text(text_of(name), "utf-8")


if __name__ == "__main__":
    rewrite()

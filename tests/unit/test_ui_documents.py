"""What a person reads of documents: five of them whole (tests/data/views), of the others what decides.

Every view shows three documents that were varied from their schema, so that each choice of each field is met.
"""

from __future__ import annotations

import importlib
import inspect
import io
import pkgutil
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.data_files import compare
from support.varied import Varied
from support.view_files import FOLDER, VIEWS, pipe, shown

from xpubuild import ui
from xpubuild.ui import (
    console,
    diagnosis_views,
    migrate_views,
    parts,
    recipe_views,
    run_views,
    supply_views,
    views,
)
from xpubuild.ui.parts import Part, table
from xpubuild.ui.run_views import final_view, how_called
from xpubuild.verify.model import CheckResult

Given = Mapping[str, tuple[Any, ...]]
_JOBS: Given = {"folder": ("/a folder/of jobs",), "submit": ("/a folder/submit",)}
_PATCHES: Given = {"recipe.patches": ({"2.9.1": {}, "2.10.0": {}}, {}), "recipe.facts": ({},)}
_COMPONENTS: Given = {
    "releases[].components": (
        {"triton": {"dist": "triton-xpu", "version": "3.5.0"}},
        {"triton": {"dist": "triton", "version": "3.4.0"}},
    ),
    "releases[].unknown": ([], ["needs.gcc", "needs.oneapi"]),
}
_TABLES: Given = {**_COMPONENTS, "situation": (None,)}
_HOST: Given = {**_COMPONENTS, "situation?": (), "releases[].verdict?": ()}
_VALUES: Given = {"settings[].value": ("text", ["one", "another"], True, 2.5, None, False)}
_DIFFERENCES: Given = {
    "differences[].old": ({"commit": "one", "ref": None}, "a text", None),
    "differences[].new": (["one wheel", "another"], {"wheels": ["a", "b"]}, 5),
}
_RECEIPT: Given = {
    "steps[].id": ("torch.wheel", "env", "torch"),
    "commands[].step": ("torch.wheel", "env", "else"),
    "verify.checks[].status": ("fail", "pass", "skip", "crash"),
    "verify.status": ("fail", "pass"),
}


def _summary(view: Callable[[Any], Any]) -> Callable[[Any], str]:
    return lambda document: parts.markdown("a title", view(document))


#: The document, how it is shown, what its first text must hold, and the values that some of its fields take.
SHOWN: dict[str, tuple[str, Callable[[Any], Any], tuple[str, ...], Given]] = {
    "doctor -v": ("doctor", lambda d: diagnosis_views.doctor_text(d, pipe(), verbose=True),
                  ("\nok    checks.id 1 a: checks.detail 1 a", "25 failed, 26 could not complete"), {}),
    "doctor in GitHub Actions": ("doctor", diagnosis_views.doctor_annotations,
                                 ("::error title=", "::warning title="), {}),
    "doctor on a page": ("doctor", _summary(diagnosis_views.doctor_summary_view),
                         ("### a title", "| check | result | detail | fix |"), {}),
    "doctor --list": ("doctor-checks", diagnosis_views.doctor_checks_view, ("PASSES WHEN\n",), {}),
    "doctor --list -v": ("doctor-checks", diagnosis_views.doctor_explanations, ("explanation 1 a",), {}),
    "verify -q": ("verify", lambda d: run_views.verify_view(d, quiet=True), ("result:  pass (29 ",), {}),
    "verify on a page": ("verify", _summary(run_views.verify_summary_view),
                         ("**Not passed**", "| check | result | detail |"), {}),
    "verify --list": ("verify-checks", run_views.verify_checks_view, ("CHECK ", "WHAT IT CHECKS\n"), {}),
    "test": ("test", run_views.test_view,
             ("New failures\nTEST ", "Failures of the accepted run, too\n", "pass now\n", "result:"),
             {"cases[].id": ("a::one", "a::two", "a::three"), "new": (["a::one"],), "known": (["a::two"],)}),
    "bisect": ("bisect", run_views.bisect_view, ("Commits\nCOMMIT ", "first bad commit: "), {}),
    "explain": ("explain", diagnosis_views.explain_view,
                ("First error\n", "Finding 1 of 6: ", "confidence: certain",
                 "Next:\n  findings.next_command 1 a"), {}),
    "explain --list": ("explain-rules", diagnosis_views.rules_view, ("RULE ",), {}),
    "check": ("check", views.workspace_check_view,
              ("result:    ok", "Damaged\nWHAT ", "Repaired\n", "and 2 more\n",
               "Sources with local changes\n"), {"unowned": ([f"path {n}" for n in range(22)], [])}),
    "clean": ("clean", views.clean_view, ("PATH  ", "keep    kept.why 1 a"), {}),
    "overview": ("overview", views.overview_view,
                 ("Workspaces\nWORKSPACE ", "LAST VERIFY\n", "Caches\nCACHE "), {}),
    "recipes list": ("recipes", lambda d: recipe_views.recipes_view(d["recipes"]),
                     ("RECIPE ", "broken: error.why 1 a"), {}),
    "recipes show": ("recipe", lambda d: recipe_views.recipe_summary_view(d, "one"),
                     ("releases:          recipe.release a, 2.10.0, 2.9.1", "Limitations\nwithout ",
                      "does not work (with GCC "), _PATCHES),
    "recipes show -v": ("recipe", recipe_views.recipe_view,
                        ("also: 2.10.0, 2.9.1", "source: none is given (confidence: none)"), _PATCHES),
    "recipes check": ("recipes-check", recipe_views.recipes_check_view,
                      ("  warning: ", "  not checked: ", "  ok\n"), {}),
    "recipes bump": ("recipes-bump", recipe_views.bump_view,
                     ("KEY ", "To be looked up\n", "3 pins of release a differ from recipe base a",
                      "  xpubuild recipes bump release a --output FILE\n"), {}),
    "recipes bump, written": ("recipes-bump", lambda d: recipe_views.bump_view(d, "a file"),
                              ("  xpubuild recipes check a file\n",), {}),
    "matrix": ("matrix", recipe_views.matrix_view,
               ("Build requirements\nRELEASE ", "Builds with this oneAPI\n", "Matching versions\n",
                "triton-xpu 3.5.0", "Runs on\n", "DEFAULT AOT TARGETS\n", "Limitations\n"), _TABLES),
    "matrix as Markdown": ("matrix", _summary(recipe_views.matrix_view), ("| release |", "| --- |"), _TABLES),
    "matrix of a host": ("matrix", recipe_views.matrix_view,
                         ("newest that builds here: ", "; 2 of 6 releases build\n", "Host\n",
                          "REASONS AND MISSING FEATURES\n", "run `xpubuild recipes matrix`"), _HOST),
    "audit": ("audit", lambda d: supply_views.audit_view(d["wheels"]),
              ("WHEEL ", "SYMBOLS NEW:OLD", "27:25", "Device code\n", "Findings\nSEVERITY "), {}),
    "wheel repair": ("wheel-repair", lambda d: supply_views.repair_view(d["wheels"]),
                     ("AUDIT BEFORE", "Required\n", "Bundled\n", "Changed\nOBJECT "), {}),
    "fetch": ("fetch", supply_views.fetch_view,
              ("new:      24 repositories, 27 files", "New\nFILE "), {}),
    "lock": ("written-lock", supply_views.lock_written_view, ("(written)",), {}),
    "verify-lock": ("verify-lock", supply_views.lock_verified_view,
                    ("result: ok", "IN THE LOCK ", "commit one ", "one wheel, another"), _DIFFERENCES),
    "install": ("receipt", lambda d: run_views.final_view(d, program="x"),
                ("Steps\nSTEP ", "PEAK MEMORY", "the store steps.store 5 a", "Compile cache\n", "Wheels\n",
                 "1 error, 1 warning", "Missing or different from the plan\n", "verify: fail: 24 passed"),
                _RECEIPT),
    "rehearse": ("rehearsal", run_views.rehearsal_view,
                 ("the build is configured as requested", "SYCL FILES OF ", "Switches\n", "Warnings\n"),
                 {}),
    "store list": ("store", supply_views.store_view, ("believed: no: stores.why 1 a", "IDENTITY "), {}),
    "store size": ("store-size", supply_views.store_size_view, ("STORE ", "NOT USED BECAUSE\n"), {}),
    "store check": ("store-check", supply_views.store_check_view, ("STORE ", "damaged.why 1-1 a\n"), {}),
    "store push": ("store-copy", supply_views.store_copy_view, ("WHEEL ", "  yes   wheels.why 1 a"), {}),
    "store gc": ("store-gc", views.many_view, ("PATH ", "4.0 MB  remove  removed.why 3 a"), {}),
    "plan for jobs": ("planned-jobs", views.planned_jobs_view,
                      ("Jobs\nJOB ", "Submit them: '/a folder/submit'\n"), _JOBS),
    "status of jobs": ("jobs", views.jobs_view, ("Jobs\nJOB ", "EXIT\n"), _JOBS),
    "image": ("image", views.image_view, ("base:    base_image a", "by:      build.builder a"), {}),
    "config": ("config", views.config_view,
               ("(does not exist)", "OVERRIDDEN BY\n", "  one, another  ", "  true  ", "  2.5  "), _VALUES),
    "config init": ("config-init", views.config_written_view, ("written: file a\n",), {}),
    "migrate": ("migrate", migrate_views.migrate_view, ("files: ", "torch: ", "left: "), {}),
    "migrate --prove": ("migrate-proof", migrate_views.proof_view, ("What ran on the device\n",), {}),
    "report": ("report", lambda d: views.report_view(d, Path("a page")), ("page:      ",), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_a_whole_view(name: str) -> None:
    compare((FOLDER / f"{name}.txt").read_text("utf-8"), VIEWS[name](), "make regen")


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_view_must_show(name: str) -> None:
    document, view, wanted, given = SHOWN[name]
    texts = []
    for number in range(3):
        text = view(Varied(document, number, given).document)
        texts.append(text if isinstance(text, str) else shown(text))
    assert [words for words in wanted if words not in texts[0]] == [], texts[0]


def test_every_view_of_a_document_is_shown() -> None:
    table = inspect.getsource(importlib.import_module(__name__)) + inspect.getsource(
        importlib.import_module("support.view_files")
    )
    modules = [
        importlib.import_module(f"xpubuild.ui.{module.name}") for module in pkgutil.iter_modules(ui.__path__)
    ]
    functions = [
        name
        for module in modules
        if not module.__name__.endswith(".console")
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and "document" in inspect.signature(function).parameters
    ]
    assert "status_view" in functions
    assert [name for name in functions if name not in table] == []


@pytest.mark.parametrize("quiet", [False, True])
def test_a_line_for_each_check_that_ends(quiet: bool) -> None:
    stream = io.StringIO()
    printer = run_views.CheckPrinter(total=3, quiet=quiet, stream=stream)
    for status in ("pass", "fail", "skip"):
        printer.emit(CheckResult(f"a.{status}", "t", "a", status, 61.0, f"detail of {status}"))
    lines = {
        "pass": "[1/3] pass a.pass 1m 01s",
        "fail": "[2/3] fail a.fail 1m 01s: detail of fail",
        "skip": "[3/3] skip a.skip 1m 01s: detail of skip",
    }
    assert stream.getvalue().splitlines() == [lines["fail"]] if quiet else [*lines.values()]


# ---- The receipt, wide tables, and the commands that are proposed


WORKSPACE = "/home/u/über space/quickstart"


def plain(parts: tuple[Part, ...], **variables: str) -> str:
    stream = io.StringIO()
    console.show(parts, stream, variables)
    return stream.getvalue()


RECEIPT: dict[str, Any] = {
    "recipe": "quickstart",
    "status": "complete",
    "workspace": WORKSPACE,
    "python": f"{WORKSPACE}/env/bin/python3",
    "lock_digest": "cd" * 32,
    "steps": [{"id": name, "store": None} for name in ("env", "ops.wheel", "verify")],
    "commands": [
        {"step": "ops.wheel", "argv": ["b"], "duration_s": 0.0, "peak_bytes": 0},
        {"step": "env", "argv": ["a"], "duration_s": 3.0, "peak_bytes": 1 << 20},
        {"step": "env", "argv": ["b"], "duration_s": 30.0, "peak_bytes": 1 << 20},
        {"step": "env", "argv": ["a"], "duration_s": 5.0, "peak_bytes": 3 << 20},
        {"step": "env", "argv": ["b"], "duration_s": 10.0, "peak_bytes": 2 << 20},
        {"step": "ops.wheel", "argv": ["c"], "duration_s": 61.0, "peak_bytes": 1 << 30},
    ],
    "wheels": [
        {
            "file": "xpubuild_ops-0.1-cp311-cp311-linux_x86_64.whl",
            "name": "xpubuild-ops", "version": "0.1.0", "sha256": "0f" * 32, "size": 12_345_678,
            "abi": 1, "findings": [],
        },
        {
            "name": "bad", "version": "1", "sha256": "1f" * 32, "size": 999, "abi": None,
            "findings": [{"severity": "error"}, {"severity": "warning"}, {"severity": "error"}],
        },
    ],
    "prebuilt": [
        {"step": "torch", "name": "torch", "version": "2.13.0+cpu", "sha256": "2f" * 32},
        {"step": "torch", "name": "sympy", "version": "1", "sha256": "3f" * 32},
    ],
    "verify": {
        "status": "pass", "passed": 12, "failed": 0, "crashed": 0, "timed_out": 0, "skipped": 3,
        "checks": [{"id": "resnet50", "status": "pass"}, {"id": "xpu", "status": "skip"}],
    },
    "compile_cache": [],
    "warnings": [],
    "logs": f"{WORKSPACE}/logs",
}  # fmt: skip


def test_final() -> None:
    assert plain(final_view(RECEIPT, program="xpubuild")).splitlines() == [
        "Steps",
        "STEP         TIME  PEAK MEMORY",
        "env          15 s      3.0 MiB",
        "ops.wheel  1m 01s      1.0 GiB",
        "",
        "Wheels",
        "WHEEL         VERSION     SIZE  SHA256        C++ ABI  AUDIT",
        "xpubuild-ops  0.1.0    12.3 MB  0f0f0f0f0f0f  1        ok",
        "bad           1          999 B  1f1f1f1f1f1f  none     2 errors, 1 warning",
        "",
        "PREBUILT  VERSION     SHA256",
        "torch     2.13.0+cpu  2f2f2f2f2f2f",
        "",
        "verify: pass: 12 passed, 0 failed, 3 skipped",
        "",
        "Files",
        "recipe:  quickstart",
        "lock:    cdcdcdcdcdcd",
        f"python:  {WORKSPACE}/env/bin/python3",
        f"wheels:  {WORKSPACE}/wheels",
        f"logs:    {WORKSPACE}/logs",
        f"receipt: {WORKSPACE}/receipt.json",
        "",
        "Next steps:",
        f"  eval \"$(xpubuild env --workspace '{WORKSPACE}')\"",
        f"  xpubuild verify --workspace '{WORKSPACE}'",
    ]


def test_wide_tables_are_folded_at_blanks_to_120_columns() -> None:
    long = ("word " * 60).strip()
    text = plain((table("", ("name", "about", ">size"), [("a", long, 1), ("x" * 40, "short", 23)]),))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 120
    assert text.split().count("word") == 60
    assert lines[1].endswith("   1")
    assert plain((table("", ("path",), [("/p" * 100,)]),)).splitlines()[1] == "/p" * 100


def test_a_table_whose_words_do_not_fit_is_a_list() -> None:
    path = "/p" * 60
    found = table("", ("name", "path", "size"), [("a", path, "40 MB or more"), ("b", path, "")])
    assert plain((found,)).splitlines() == [
        "name: a", f"path: {path}", "size: 40 MB or more", "", "name: b", f"path: {path}",
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["on PATH", "elsewhere", "module"])
def test_suggested_commands_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    program = tmp_path / "my bin" / "xpubuild"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent) if form == "on PATH" else "/nowhere")
    called = str(program.parent / "__main__.py" if form == "module" else program)
    assert (
        how_called(called)
        == {
            "on PATH": "xpubuild",
            "elsewhere": shlex.quote(str(program)),
            "module": f"{shlex.quote(sys.executable)} -m xpubuild",
        }[form]
    )

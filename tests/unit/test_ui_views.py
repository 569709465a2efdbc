from __future__ import annotations

import io
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from xpubuild.ui import console
from xpubuild.ui.parts import Part, table
from xpubuild.ui.run_views import final_view, how_called

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

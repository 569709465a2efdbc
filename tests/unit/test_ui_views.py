from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpubuild.ui import console
from xpubuild.ui.final import final_view
from xpubuild.ui.invocation import how_called
from xpubuild.ui.parts import Commands, Facts, Part, Table

WORKSPACE = "/home/u/über space/quickstart"


def plain(parts: tuple[Part, ...]) -> str:
    stream = io.StringIO()
    console.show(parts, stream, {})
    return stream.getvalue()


def table(parts: tuple[Part, ...], first: str) -> Table:
    """Return the table whose first column has this name."""
    return next(part for part in parts if isinstance(part, Table) and part.columns[0].name == first)


RECEIPT: dict[str, Any] = {
    "recipe": "quickstart",
    "status": "complete",
    "workspace": WORKSPACE,
    "python": f"{WORKSPACE}/env/bin/python3",
    "lock_digest": "cd" * 32,
    "steps": [{"id": "env"}, {"id": "ops.wheel"}, {"id": "verify"}],
    "commands": [
        {"step": "ops.wheel", "argv": ["b"], "duration_s": 0.0},
        {"step": "env", "argv": ["a"], "duration_s": 3.0, "peak_bytes": 1 << 20},
        {"step": "env", "argv": ["b"], "duration_s": 30.0, "peak_bytes": 1 << 20},
        {"step": "env", "argv": ["a"], "duration_s": 5.0, "peak_bytes": 3 << 20},
        {"step": "env", "argv": ["b"], "duration_s": 10.0, "peak_bytes": 2 << 20},
        {"step": "ops.wheel", "argv": ["c"], "duration_s": 61.0, "peak_bytes": 1 << 30},
    ],
    "wheels": [
        {
            "file": "xpubuild_ops-0.1-cp311-cp311-linux_x86_64.whl",
            "name": "xpubuild-ops", "version": "0.1.0", "sha256": "0f" * 32, "size_bytes": 12_345_678,
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
        "status": "ok", "passed": 12, "failed": 0, "crashed": 0, "timed_out": 0, "skipped": 3,
        "checks": [{"id": "resnet50", "status": "pass"}, {"id": "xpu", "status": "skip"}],
    },
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
        "verify: ok: 12 passed, 0 failed, 3 skipped",
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


def test_final_names_the_checks_that_did_not_pass() -> None:
    verify = {
        "status": "fail",
        "passed": 1,
        "failed": 1,
        "crashed": 1,
        "checks": [{"id": "a", "status": "crash", "detail": "SIGSEGV"}, {"id": "b", "status": "pass"}],
    }
    parts = final_view({**RECEIPT, "verify": verify}, program="xpubuild")
    assert table(parts, "check").rows == (("a", "crash", "SIGSEGV"),)
    assert "verify: fail: 1 passed, 1 failed, 1 crashed\n" in plain(parts)
    commands = next(part for part in parts if isinstance(part, Commands))
    assert commands.lines[0] == f"xpubuild status --workspace '{WORKSPACE}'"


def test_final_of_a_run_that_got_half_way() -> None:
    parts = final_view({"status": "partial"}, Path("/ws"), program="xpubuild", next_commands=["one", "two"])
    text = plain(parts)
    assert "verify: not run" in text
    assert "status:  partial" in text
    assert "/ws/env/bin/python" in text
    assert text.endswith("Next steps:\n  one\n  two\n")
    assert not any(isinstance(part, Table) for part in parts), "empty tables are left out"


def test_final_without_anything() -> None:
    assert plain(final_view({}, program="x")) == "verify: not run\n"


_junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats(0, 1e9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["step", "argv", "duration_s", "peak_bytes", "name", "sha256", "size_bytes", "abi", "findings",
         "status", "passed", "failed", "checks", "id", "detail"]), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(RECEIPT)), _junk))
def test_a_receipt_of_another_make_does_no_harm(receipt: dict[str, Any]) -> None:
    receipt = json.loads(json.dumps(receipt))
    assert plain(final_view(receipt, program="x"))
    assert any(isinstance(part, Facts) for part in final_view(receipt, program="x"))


@pytest.mark.parametrize("form", ["on PATH", "beside", "elsewhere", "module"])
def test_suggested_commands_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    program = tmp_path / "my bin" / "xpubuild"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent) if form == "on PATH" else "/nowhere")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er" if form == "elsewhere" else tmp_path)
    called = str(program.parent / "__main__.py" if form == "module" else program)
    assert (
        how_called(called)
        == {
            "on PATH": "xpubuild",
            "beside": "'my bin/xpubuild'",
            "elsewhere": shlex.quote(str(program)),
            "module": f"{shlex.quote(sys.executable)} -m xpubuild",
        }[form]
    )

"""``xpubuild explain`` as a program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.documents import check
from support.explain_logs import embed

from xpubuild.engine.journal import Journal
from xpubuild.explain.rules import shipped_rules

LINE = "ImportError: libze_loader.so.1: cannot open shared object file: No such file or directory"
RULE = "library-not-found"


def run(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "xpubuild", "explain", *arguments]
    return subprocess.run(argv, input=data, capture_output=True, check=False, timeout=60)


def document(*arguments: str, data: bytes = b"", name: str = "explain") -> dict[str, Any]:
    result = run(*arguments, "--json", data=data)
    assert result.returncode == 0, result.stderr.decode()
    return check(json.loads(result.stdout), name)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "mein büild" / "a log.txt"
    path.parent.mkdir()
    path.write_bytes(embed([LINE], after=0))
    return path


def test_the_document_of_a_log(log: Path) -> None:
    found = document(str(log))
    assert found["first_error"]["line"] == 3001
    assert found["findings"][0]["id"] == RULE
    assert found["findings"][0]["line"] == 3001
    assert found == document("-", data=log.read_bytes())


def test_the_text_names_cause_fix_and_command(log: Path) -> None:
    result = run(str(log))
    text = result.stdout.decode()
    assert result.returncode == 0
    for part in ("First error", RULE, "certain", "Next:", "glibc"):
        assert part in text


def test_nothing_found_is_an_answer(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    assert document(str(empty)) == {
        "schema": "xpubuild.explain/1", "first_error": None, "findings": [], "search_terms": [], "lines": 0
    }  # fmt: skip
    result = run(str(empty))
    assert result.returncode == 0
    assert b"the log is empty" in result.stdout


def test_an_unknown_error_is_shown_with_search_terms() -> None:
    result = run("-", data=b"one\ntwo\nx.cpp:1:1: error: frobnication is not possible\nafter\n")
    text = result.stdout.decode()
    assert "The cause is not known" in text
    assert "frobnication is not possible" in text
    assert "Search for" in text


@pytest.mark.parametrize("arguments", [("no such.log",), (".",), ()])
def test_a_log_that_is_not_there(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*(str(tmp_path / name) for name in arguments))
    assert result.returncode == 2
    assert b"fix:" in result.stderr
    assert b"Traceback" not in result.stderr


def test_the_list() -> None:
    listed = document("--list", name="explain-rules")["rules"]
    assert {entry["id"] for entry in listed} == {entry.id for entry in shipped_rules().rules}
    assert RULE.encode() in run("--list").stdout


def test_a_workspace_is_explained_by_the_log_of_its_failed_step(tmp_path: Path) -> None:
    root = tmp_path / "a workspace"
    (root / "logs").mkdir(parents=True)
    with Journal(root / "journal.db") as journal:
        journal.begin("torch.wheel", "f")
        journal.failed("torch.wheel", "it ended")
    (root / "logs" / "torch.wheel.log").write_text(f"start\n{LINE}\n")
    assert document(str(root))["findings"][0]["id"] == RULE
    (root / "logs" / "torch.wheel.log").unlink()
    result = run(str(root))
    assert result.returncode == 2
    assert b"fix:" in result.stderr

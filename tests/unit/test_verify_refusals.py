"""What verify refuses before its first check, and the command that runs failing checks again."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest
from support.cli import Xpubuild

from xpubuild.errors import ToolchainError, UsageError
from xpubuild.verify import baseline
from xpubuild.verify.baseline import Baseline
from xpubuild.verify.model import CheckResult, VerifyReport
from xpubuild.verify.reports import failure, require_places, write_reports
from xpubuild.verify.target import resolve_target


def test_a_place_where_no_report_can_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    report = VerifyReport("smoke", "/p", ())
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "r.xml", Path("/proc/r.json")):
        writing = partial(write_reports, report, json_file=None, junit_file=path)
        for act in (partial(require_places, None, path), writing):
            with pytest.raises(ToolchainError) as caught:
                act()
            assert str(path) in f"{caught.value.what} {caught.value.why}"
            assert caught.value.fix
    require_places(tmp_path / "new" / "r.json", None)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_baseline_to_update_must_be_usable_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "baseline.json"
    assert baseline.before(None, update=False) is None
    assert baseline.before(path, update=True) is None
    path.write_text("{")
    for update in (True, False):
        with pytest.raises(UsageError, match="cannot be used as a baseline") as caught:
            baseline.before(path, update=update)
        assert caught.value.fix.startswith("use another file, or remove this one")
    baseline.write(Baseline("a GPU", "2.12"), path)
    assert baseline.before(path, update=True) is None
    assert baseline.before(path, update=False) == Baseline("a GPU", "2.12")


def test_the_command_that_runs_failing_checks_again_has_the_options_of_the_run() -> None:
    report = VerifyReport(
        "operators", "/p", (CheckResult("a.c0", "title", "a", "fail", 1.5, "wrong"),), device={"type": "cpu"}
    )
    error = failure(report, (), ["--operators", "add,mul", "--results", "/w s"])
    assert error is not None
    (command,) = error.commands
    words = (
        "--python /p --device cpu --suite operators --operators add,mul --results '/w s' --only a.c0 --json"
    )
    assert command == f"xpubuild verify {words}"


def test_the_stand_in_is_for_xpu_alone_and_for_a_torch_that_has_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--stand-in is for --device xpu, not cpu"):
        resolve_target(sys.executable, None, "cpu", stand_in=True)
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"torch": "2.13.0+cpu", "prefix": "/e", "xpu": false}\'\n')
    python.chmod(0o755)
    with pytest.raises(UsageError, match="--stand-in needs a torch for XPU") as caught:
        resolve_target(str(python), None, None, stand_in=True)
    assert "2.13.0+cpu, which was built without XPU" in caught.value.why
    assert "--device cpu" in caught.value.fix
    assert not resolve_target(str(python), None, None).stand_in


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--minutes", "1"), "--minutes has no effect without --suite operators"),
        (("--no-gpu", "--suite", "full"), "--suite has no effect with --no-gpu"),
        (("--no-gpu", "--results", "/tmp"), "--results has no effect"),
        (("--only", ","), "--only is empty"),
        (("--update-baseline",), "--update-baseline needs --baseline FILE"),
    ],
)
def test_options_without_effect_are_refused(xpubuild: Xpubuild, words: tuple[str, ...], told: str) -> None:
    result = xpubuild("verify", "--python", sys.executable, "--device", "cpu", *words)
    assert (result.status, told in result.err) == (2, True), result.err


def test_a_report_that_cannot_be_written_ends_before_the_first_check(xpubuild: Xpubuild) -> None:
    result = xpubuild("verify", "--python", sys.executable, "--device", "cpu", "--junit", "/proc/x.xml")
    assert result.status == 40
    assert "/proc/x.xml cannot be written" in result.err
    assert "import.torch" not in result.err

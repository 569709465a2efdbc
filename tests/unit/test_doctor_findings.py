"""The stored answers of doctor's checks (tests/data/findings): each check has some, commands can be typed."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator

import pytest
from support.findings import files
from support.imports import ROOT

from xpubuild.doctor.registry import shipped

#: Left of a text that was to be filled in; what only the user knows is in capitals, as HOST.
_LEFT_OPEN = re.compile(r"(?<!\$)\{(?!tmp\}|python\}|checkout\})\w*\}|<\w+>|\bNone\b|\bUNKNOWN\b|\bunknown\b")


def commands() -> list[str]:
    """Return every command that a fix says, once."""
    fixes = (answer["fix"] for answers in files().values() for answer in answers if "fix" in answer)
    return sorted({command for fix in fixes for command in fix["commands"]})


def parses(text: str) -> str:
    """Return what bash has against a text."""
    argv = ["bash", "-n"]
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=60).stderr


#: Their answers name folders and devices of a real runtime; see tests/integration/test_doctor_sycl.py.
OF_A_REAL_RUNTIME = {"opencl.cpu", "sycl.adapters"}


@pytest.mark.parametrize("check", [check.id for check in shipped() if check.id not in OF_A_REAL_RUNTIME])
def test_a_check_is_stored_with_something_wrong_and_with_nothing(check: str) -> None:
    found = {answer["status"] for answer in files().get(check, ())}
    assert found & {"fail", "warn"}
    assert "ok" in found


def test_what_is_wrong_comes_with_advice() -> None:
    for check, answers in files().items():
        for answer in answers:
            advice = answer.get("fix", {"summary": ""})["summary"]
            assert bool(advice) == (answer["status"] in ("fail", "warn")), (check, answer["detail"])


def test_commands_can_be_typed() -> None:
    # One bash for all; which of them it was is asked only where there is one.
    if parses("\n".join(commands())):
        assert not [command for command in commands() if parses(command)]


def test_commands_are_filled_in() -> None:
    assert not [command for command in commands() if _LEFT_OPEN.search(command)]
    assert _LEFT_OPEN.search("touch {path}")
    assert not _LEFT_OPEN.search("touch ${HOME}/{tmp}")


def named() -> Iterator[tuple[str, str]]:
    for answers in files().values():
        for answer in answers:
            for test in answer["tests"]:
                file, _, function = test.partition("::")
                yield file, function


def test_stored_answers_name_tests_that_exist() -> None:
    known = {
        (path.stem, node.name)
        for path in (ROOT / "tests").glob("*/test_doctor_*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert {*named()} <= known

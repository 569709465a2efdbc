"""The stored answers of doctor's checks (tests/data/findings): each check has some, commands can be typed."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.findings import files
from support.imports import ROOT

from xpubuild.doctor.registry import shipped

#: Left of a text that was to be filled in; what only the user knows is in capitals, as HOST. An argument of a
#: line of Python may be None.
_LEFT_OPEN = re.compile(
    r"(?<!\$)\{(?!tmp\}|python\}|checkout\})\w*\}|<\w+>|(?<!\(0, )\bNone\b|\bUNKNOWN\b|\bunknown\b"
)


def commands() -> list[str]:
    """Return every command that a fix says, once."""
    fixes = (answer["fix"] for answers in files().values() for answer in answers if "fix" in answer)
    return sorted({command for fix in fixes for command in fix["commands"]})


def parses(text: str) -> str:
    """Return what bash has against a text."""
    argv = ["bash", "-n"]
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=60).stderr


@pytest.mark.parametrize("check", [check.id for check in shipped()])
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


def texts(value: Any) -> Iterator[str]:
    """Yield every text in an answer but the names of its tests."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from texts(part) if name != "tests" else ()
    elif isinstance(value, list):
        for part in value:
            yield from texts(part)
    else:
        yield str(value)


def phrases(path: Path) -> Iterator[str]:
    """Yield what the functions of a module may say: their texts of several words, parts of f-strings too."""
    functions = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if hasattr(node, "returns")]
    for function in functions:
        docstring = ast.get_docstring(function, clean=False)  # type: ignore[arg-type]
        for node in ast.walk(function):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != docstring:
                yield from (part for part in node.value.split("{0}") if " " in part.strip())


@pytest.mark.parametrize("path", sorted((ROOT / "xpubuild/doctor/checks").glob("*.py")), ids=lambda p: p.stem)
def test_all_that_a_check_can_say_is_stored(path: Path) -> None:
    """What no test brings a check to say, nobody would miss: neither the words nor when they are said."""
    stored = "\n".join(texts([*files().values()]))
    assert [phrase for phrase in phrases(path) if phrase.strip() not in stored] == []


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

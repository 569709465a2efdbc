"""Words that the user wants out of the report for bug threads: gone wherever they stand, the rest stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import Xpubuild
from support.doctor_frame import a_check, a_context, report_of

from xpubuild.doctor.bundle import bundle_text
from xpubuild.doctor.identity import Identity, Words
from xpubuild.doctor.kit import Fix, Outcome
from xpubuild.doctor.report import doctor_document
from xpubuild.errors import UsageError

IDENTITY = Identity(users=frozenset({"zoe"}))
ENVIRON = {
    "ONEAPI_ROOT": "/proj/Starling/oneapi",
    "CMAKE_STARLING_DIR": "/opt",
    "CMAKE_ARGS": '-DSITE="cold | front"',
    "LD_LIBRARY_PATH": "/proj/zoe-falcon/lib",
}
TEXT = "/proj/STARLING-x cold\n | front zoe-falcon http://h/cold%20%7C%20front and Ünïcorn"


def report(*words: str) -> str:
    evidence = {"text": TEXT, TEXT: 1, "starling": [{"a": (TEXT,)}]}
    check = a_check("gpu.starling", Outcome("fail", TEXT, evidence, Fix(f"ask {TEXT}", (f"cat {TEXT}",))))
    document = doctor_document(report_of(check, context=a_context(environ=ENVIRON)))
    return bundle_text(document, ENVIRON, IDENTITY, Words(words))


def test_words_are_nowhere_in_the_report() -> None:
    text = report("starling", "cold | front", "zoe-falcon", "ünïcorn")
    lower = text.lower()
    for word in ("starling", "front", "falcon", "ünïcorn", "\\u00fc"):
        assert word not in lower, word
    assert "ONEAPI_ROOT=/proj/REDACTED/oneapi" in text
    assert "LD_LIBRARY_PATH=/proj/REDACTED/lib" in text
    assert "| gpu.REDACTED | fail |" in text


def test_without_words_only_who_and_where_is_masked() -> None:
    text = report()
    assert "REDACTED" not in text
    assert "Starling" in text
    assert "zoe" not in text


def test_the_longer_of_two_words_goes_whole() -> None:
    assert Words(("star", "starling"))("Starling, stars") == "REDACTED, REDACTEDs"
    assert Words(("a.c+",))("abc a.c+") == "abc REDACTED"


@pytest.mark.parametrize(("word", "text"), [("straße", "STRASSE"), ("Éclair", "éCLAIR")])
def test_a_word_is_known_in_another_case(word: str, text: str) -> None:
    assert Words((word,))(f"on {text}!") == "on REDACTED!"


@pytest.mark.parametrize("word", ["", "  ", "ab", " ab "])
def test_a_word_that_would_be_found_everywhere_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="too short"):
        Words((word,))


def test_the_command_writes_the_report_without_them(xpubuild: Xpubuild, tmp_path: Path) -> None:
    file = tmp_path / "report.md"
    words = ("doctor", "--only", "build.memory", "--bundle", str(file))
    xpubuild(*words, "--redact", "starling", "--redact", "Lark", CMAKE_ARGS="-DX=/p/Starling/LARK")
    assert "CMAKE_ARGS=-DX=/p/REDACTED/REDACTED" in file.read_text()
    file.unlink()
    refused = xpubuild(*words, "--redact", "x")
    assert refused.status == 2
    assert not file.exists()
    alone = xpubuild("doctor", "--redact", "starling")
    assert alone.status == 2
    assert "--bundle" in alone.err

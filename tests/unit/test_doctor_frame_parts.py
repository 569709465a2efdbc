"""Parts of doctor's frame: the bundle as a whole, what is made once, how a run begins."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli import Xpubuild
from support.doctor_frame import a_check, a_context, report_of

from xpubuild.doctor import bundle, registry, start
from xpubuild.doctor.bundle import bundle_text
from xpubuild.doctor.identity import Identity, Words
from xpubuild.doctor.kit import Fix, Outcome
from xpubuild.doctor.report import doctor_document
from xpubuild.errors import UsageError, XpuBuildError


def test_the_newest_internal_errors_of_this_user_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for number in range(5):
        file = tmp_path / f"xpubuild-bug-{number}.txt"
        file.write_text("\n".join(f"line {line}" for line in range(450)))
        os.utime(file, (1000 - number, 1000 - number))
    (tmp_path / "other.txt").touch()
    found = bundle.internal_errors()
    assert list(found) == [f"xpubuild-bug-{number}.txt" for number in range(3)]
    assert found["xpubuild-bug-0.txt"] == [f"line {line}" for line in range(50, 450)]
    monkeypatch.setattr("xpubuild.doctor.bundle.os.geteuid", lambda: os.getuid() + 1)
    assert bundle.internal_errors() == {}


def test_a_damaged_module_of_checks_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    really = registry.importlib.import_module

    def load(name: str) -> object:
        if name.endswith(".gpu"):
            raise SyntaxError("damaged")
        return really(name)

    monkeypatch.setattr(registry.importlib, "import_module", load)
    found = {check.id: check for check in registry.all_checks()}
    assert "gpu.present" not in found
    assert found["plugin.gpu"](a_context()) == Outcome("error", "SyntaxError: damaged")
    assert found["plugin.gpu"].title == "The checks of gpu can be loaded"
    assert "gpu.kernel_driver" in found


@pytest.mark.parametrize(
    "begin",
    [
        lambda folder: start.begin({}, root=folder / "none"),
        lambda folder: start.begin({"PATH": ""}, root=folder, target="xpu"),
        lambda folder: start.begin({"PATH": "/nowhere"}, python="python9"),
        lambda folder: start.begin({}, python=f"{folder}/python9"),
    ],
)
def test_a_run_that_cannot_begin(tmp_path: Path, begin: Callable[[Path], object]) -> None:
    with pytest.raises(XpuBuildError):
        begin(tmp_path)


def test_a_machine_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_HOST_DEADLINE_S", 0.01)
    monkeypatch.setattr("xpubuild.machine.host_report.host_report", lambda *_a, **_k: time.sleep(1))
    wait = start.begin({}, root=tmp_path)
    with pytest.raises(XpuBuildError):
        wait()


def test_a_run_knows_what_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    place, root = tmp_path / "ws", tmp_path / "image"
    python = root / "usr/bin/python3"
    context = start.begin(
        {"A": "b"},
        root=root,
        recipe="2.8",
        target="cpu",
        python="/usr/bin/python3",
        workspace=place,
        profiles=("run",),
    )()
    assert (context.environ, context.root, context.python, context.workspace) == ({}, root, python, place)
    assert context.profiles == {"run"}
    assert context.recipe is not None
    assert context.recipe.recipe.target == "cpu"
    assert not context.to_build
    assert context.host.disk.path == str(tmp_path)


def test_the_workspace_that_was_entered(tmp_path: Path) -> None:
    assert start.entered({"XPUBUILD_ENTERED": str(tmp_path)}) == tmp_path
    assert start.entered({"XPUBUILD_ENTERED": str(tmp_path / "gone")}) is None
    assert start.entered({}) is None


# ---- Words that the user wants out of the report for bug threads: gone wherever they stand, the rest stays


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

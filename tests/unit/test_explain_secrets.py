"""What explain quotes from a log is fit for an issue or a search engine, and for a terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from xpubuild.cli.app import run
from xpubuild.explain.document import explain_stream
from xpubuild.explain.normalise import plain

_TOKEN = "ghp_" + "0aB9" * 9


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: could not read https://me:s3cr3t-s3cr3t@host.example/simple/torch: frobnicated",
        f"error: the server refused {_TOKEN} and the frobnicator",
        "error: MY_API_TOKEN=s3cr3t-s3cr3t was not taken",
        "fatal: Authorization: Bearer s3cr3t-s3cr3t",
        "error: " + "x" * 1990 + " https://me:s3cr3t-s3cr3t@host.example/x " + "y" * 5000,
        "error: " + "x" * 9000 + " https://me:s3cr3t-s3cr3t" + "t" * 1990 + "@host.example/x",
        "error: " + "x" * 375 + " https://me:s3cr3t-s3cr3t@host.example/x",
    ],
)
def test_no_secret_of_a_log_is_quoted_or_proposed_as_a_search(line: str) -> None:
    log = f"{line}\nnext to it: {line}\nninja: build stopped: subcommand failed.\n"
    document = explain_stream(io.BytesIO(log.encode())).to_json()
    assert document["first_error"] is not None
    text = json.dumps(document)
    assert "s3cr3t" not in text
    assert _TOKEN not in text
    assert not any("****" in term for term in document["search_terms"])


def test_a_secret_that_only_the_environment_tells_is_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text("error: frobnicate correct-horse-battery now\n")
    monkeypatch.setenv("SITE_PASSWORD", "correct-horse-battery")
    for arguments in (["explain", str(log)], ["explain", "--json", str(log)]):
        assert run(arguments) == 0
        assert "correct-horse" not in capsys.readouterr().out


@pytest.mark.parametrize("hidden", ["\u202e", "\x9b31m", "\u2066", "\u200b", "\ufeff", "\x07", "\x08"])
def test_no_character_of_a_log_reaches_the_terminal_that_it_would_obey(
    hidden: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text(f"be{hidden}fore\nerror: frob{hidden}nicated\nbe{hidden}hind\n", "utf-8")
    assert run(["explain", str(log)]) == 0
    out = capsys.readouterr().out
    assert "nicated" in out
    assert "hind" in out
    assert hidden[0] not in out
    assert plain(f"a{hidden}b".encode()) == f"a{hidden[1:]}b"

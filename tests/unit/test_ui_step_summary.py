from __future__ import annotations

import json
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.cli import child

from xpubuild.errors import FetchError
from xpubuild.ui.console import summarise, summarise_error
from xpubuild.ui.parts import Commands, Facts, Sentences, Table, markdown


def table(*rows: tuple[str, ...], title: str = "") -> Table:
    return Table(("step", ">time"), rows, title)


def test_the_parts_of_a_result_as_markdown() -> None:
    parts = (
        table(("torch", "1 s"), title="Steps"),
        table(),
        Facts((("logs", "/w"),), "Files"),
        Sentences(("One.", "Two.")),
        Commands(("xpubuild status",), "Next steps"),
        Commands(()),
    )
    assert markdown("install 2.8", parts) == (
        "### install 2.8\n\n"
        "**Steps**\n\n| step | time |\n| --- | ---: |\n| torch | 1 s |\n\n"
        "**Files**\n\n- logs: /w\n\n"
        "One.\n\nTwo.\n\n\n"
        "**Next steps**\n\n```sh\nxpubuild status\n```\n\n"
    )


@settings(deadline=None)
@given(st.text(), st.text())
def test_no_text_becomes_markup_or_another_cell(cell: str, command: str) -> None:
    text = markdown("x", [table((cell, "1")), Commands((command,))])
    rows = [line for line in text.split("\n") if line.startswith("| ")]
    assert len(rows) == 3
    bare = rows[2].replace("\\\\", "").replace("\\|", "")
    assert bare.count("|") == 3
    for mark in "`*[]":
        assert rows[2].count(mark) == rows[2].count(f"\\{mark}")
    assert not re.search(r"(?<!\\)<[^\d=]", rows[2])


def test_each_result_follows_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    env = {"GITHUB_STEP_SUMMARY": str(file)}
    summarise("one", [], env)
    error = FetchError("no host", why="it is not reached", fix="set a proxy", commands=("env",))
    summarise_error(error, env)
    text = file.read_text()
    assert text.index("### one") < text.index("### xpubuild: fetch (exit code 30)")
    for told in ("no host", "why: it is not reached", "fix: set a proxy", "```sh\nenv\n```"):
        assert told in text
    summarise("three", [], {})
    assert "three" not in file.read_text()


def test_a_summary_never_grows_beyond_what_github_takes(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    for _ in range(3):
        summarise("x", [Sentences(("ä" * 500_000,) * 2)], {"GITHUB_STEP_SUMMARY": str(file)})
    data = file.read_bytes()
    assert len(data) <= 1 << 20
    assert b"does not fit" in data
    data.decode()


def test_commands_write_their_result_and_their_error(tmp_path: Path) -> None:
    file = tmp_path / "summary.md"
    env = {"GITHUB_STEP_SUMMARY": str(file), "GITHUB_ACTIONS": "true"}
    done = child("doctor", "--only", "build.disk", "--json", **env)
    assert json.loads(done.out)["schema"] == "xpubuild.doctor/1"
    assert "### xpubuild doctor: " in file.read_text()
    assert child("install", "no-such-recipe", **env).status == 20
    assert "(exit code 20)" in file.read_text()

from __future__ import annotations

import io
import json
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.cli import child

from xpubuild.engine.events import (
    Event,
    Notice,
    RunFinished,
    RunStarted,
    StepFinished,
    StepOutput,
    StepStarted,
)
from xpubuild.errors import FetchError
from xpubuild.ui.console import summarise, summarise_error
from xpubuild.ui.parts import Commands, Facts, Sentences, Table, markdown
from xpubuild.ui.sinks import GithubSink
from xpubuild.ui.terminal import Terminal, annotation, escape_data, escape_property
from xpubuild.ui.wording import Level

T0 = 1_700_000_000.0
START = RunStarted(T0, "q", "/ws", (("a", "A"), ("b", "B")), ())


def written(*events: Event, level: Level = Level.NORMAL, close: bool = True) -> list[str]:
    stream = io.StringIO()
    sink = GithubSink(Terminal(stream, live=False, color=False, unicode=True), level)
    for event in events:
        sink.emit(event)
    if close:
        sink.close()
    return stream.getvalue().splitlines()


def test_escaping() -> None:
    assert escape_data("100%\r\nnext: a,b") == "100%25%0D%0Anext: a,b"
    assert escape_property("100%\r\nnext: a,b") == "100%25%0D%0Anext%3A a%2Cb"
    assert annotation("error", "a\nb 5%", "x: y") == "::error title=x%3A y::a%0Ab 5%25\n"
    assert annotation("warning", "w") == "::warning::w\n"


def test_steps_side_by_side_do_not_mix_their_folds() -> None:
    lines = written(
        START,
        StepStarted(T0, "a", "A", "/ws/a.log"),
        StepStarted(T0, "b", "B", "/ws/b.log"),
        StepOutput(T0 + 1, "a", "a one"),
        StepOutput(T0 + 2, "b", "b one"),
        StepOutput(T0 + 3, "a", "a two"),
        StepFinished(T0 + 4, "b", "B", "done", 4.0),
        StepOutput(T0 + 5, "a", "a three"),
        StepFinished(T0 + 6, "a", "A", "failed", 6.0, 0, "status 1"),
        RunFinished(T0 + 6, "failed", 6.0),
    )
    assert lines[3:] == [
        "::group::b: output",
        "[0:00:02] b one",
        "::endgroup::",
        "[0:00:04] b: done in 4.0 s",
        "::group::a: output",
        "[0:00:01] a one",
        "[0:00:03] a two",
        "[0:00:05] a three",
        "::endgroup::",
        "[0:00:06] a: FAILED after 6.0 s: status 1 (log: /ws/a.log)",
        "::error title=a failed::status 1",
        "[0:00:06] FAILED after 6.0 s",
    ]


def test_output_of_a_run_that_was_broken_off_is_not_lost() -> None:
    lines = written(START, StepStarted(T0, "a", "A", "/l"), StepOutput(T0, "a", "x"))
    assert lines[-3:] == ["::group::a: interrupted", "[0:00:00] x", "::endgroup::"]


def test_long_output_is_cut_at_its_beginning() -> None:
    outputs = [StepOutput(T0, "a", f"line {n}") for n in range(5003)]
    lines = written(
        START, StepStarted(T0, "a", "A", "/ws/a.log"), *outputs, StepFinished(T0, "a", "A", "done", 1.0)
    )
    assert lines[3] == "... 3 earlier lines are in /ws/a.log"
    assert lines[4] == "[0:00:00] line 3"


_hostile = st.sampled_from([
    "::set-env name=A::b", "  ::error::x", "\n::add-mask::y", "##[group]x", "a\r::stop-commands::z",
    "\x1b[0m::debug::",
])  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.one_of(_hostile, st.text(max_size=20)), max_size=8))
def test_output_cannot_give_commands_to_the_runner(texts: list[str]) -> None:
    """The runner takes a line for a command if it begins, after blanks, with ``::``, or holds ``##[``."""
    events: list[Event] = [START, StepStarted(T0, "a", "A", "/l")]
    for text in texts:
        events += [StepOutput(T0, "a", text), Notice(T0, "info", text), Notice(T0, "warning", text, text)]
    events += [StepFinished(T0, "a", "A", "failed", 1.0, 0, "".join(texts))]
    ours = ("::group::a: output", "::endgroup::", "::warning", "::error title=a failed::")
    lines = written(*events)
    commands = [line for line in lines if line.lstrip().startswith("::")]
    assert all(line.startswith(ours) for line in commands)
    assert len(commands) == len(texts) + (3 if texts else 1)
    assert not any("##[" in line for line in lines if line not in commands)


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

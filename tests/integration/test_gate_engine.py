"""A watcher beside real processes: it stops them, warns, looks at files, and explains what failed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.engine import MARK, Recorder, make_plan, new_mark, nothing_left, shell

from xpubuild.engine.events import Notice
from xpubuild.engine.fingerprint import fingerprints
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Caution, Command, Step, Stop, Verdict, Watcher
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import Outcome, run_plan
from xpubuild.engine.state import WATCHED
from xpubuild.errors import BuildError, InterruptedByUserError, NoXpuError, XpuBuildError

NO_XPU = "XPU is off"


@dataclass
class Scripted:
    """Stops at one line, warns at another, and looks for a file."""

    file: Path
    lines: list[tuple[int, str]] = field(default_factory=list)
    polls: list[float] = field(default_factory=list)

    def line(self, text: str, number: int) -> Sequence[Verdict]:
        self.lines.append((number, text))
        if text == "off":
            return [Stop(NoXpuError(NO_XPU, why="the line"))]
        return [Caution("lost", "XCCL is lost", (text,), {"file": "x"})] if text == "lost" else []

    def poll(self) -> Sequence[Verdict]:
        self.polls.append(time.monotonic())
        return [Stop(NoXpuError(NO_XPU, why="the file"))] if self.file.exists() else []

    def explain(self, error: XpuBuildError) -> XpuBuildError:
        error.explanation = {"findings": [{"title": "a cause", "next_command": "mend"}]}
        return error


@dataclass
class Run:
    outcome: Outcome
    sink: Recorder
    watchers: list[Scripted]
    journal: Path
    took_s: float

    @property
    def error(self) -> XpuBuildError:
        (error,) = self.outcome.errors
        return error


def run(
    tmp_path: Path, *commands: Command, attempts: int = 1, watchers: list[Scripted] | None = None,
    cancel: Cancel | None = None,
) -> Run:  # fmt: skip
    made = [] if watchers is None else watchers

    def watch() -> Watcher:
        made.append(Scripted(tmp_path / "cache"))
        return made[-1]

    plan = make_plan(tmp_path, Step(id="torch", title="torch", commands=commands, watch=watch))
    sink, started = Recorder(), time.monotonic()
    with Journal(tmp_path / "journal.db") as journal:
        for _ in range(attempts):
            journal.start_run("test", [], "0")
            outcome = run_plan(plan, journal, sink=sink, cancel=cancel or Cancel())
    return Run(outcome, sink, made, tmp_path / "journal.db", time.monotonic() - started)


def marked_shell(text: str, mark: str) -> Command:
    return shell(text, env={MARK: mark})


def test_a_line_ends_the_whole_tree_within_seconds(tmp_path: Path) -> None:
    mark = new_mark()
    with nothing_left(mark):
        done = run(tmp_path, marked_shell("sleep 100 & (echo off; sleep 100) & wait", mark))
    assert isinstance(done.error, NoXpuError)
    assert done.error.what == NO_XPU
    assert done.error.log == tmp_path / "logs" / "torch.log"
    assert done.took_s < 20


def test_a_file_is_noticed_while_nothing_is_printed(tmp_path: Path) -> None:
    done = run(tmp_path, shell(f"sleep 0.3; : > {tmp_path}/cache; sleep 100"))
    assert done.error.why == "the file"
    (watcher,) = done.watchers
    assert len(watcher.polls) >= 2


def test_what_is_seen_last_counts_although_the_command_was_content(tmp_path: Path) -> None:
    done = run(tmp_path, shell(f": > {tmp_path}/cache; echo off; exit 0"))
    assert done.error.exit_code == 53
    assert not done.outcome.ran


def test_a_stop_goes_before_the_commands_own_failure(tmp_path: Path) -> None:
    assert run(tmp_path, shell("echo 'fatal error: x'; echo off; exit 3")).error.exit_code == 53


def test_a_warning_is_an_event_and_evidence_and_no_failure(tmp_path: Path) -> None:
    done = run(tmp_path, shell("echo lost; echo on"))
    assert done.outcome.ran == ["torch"]
    (notice,) = done.sink.of(Notice)
    assert (notice.level, notice.text, notice.step) == ("warning", "XCCL is lost", "torch")
    with Journal(done.journal, read_only=True) as journal:
        record = journal.record("torch")
    assert record is not None
    (evidence,) = record.evidence
    assert evidence["proof"] == WATCHED
    assert evidence["warnings"] == [{"id": "lost", "text": "XCCL is lost", "lines": ["lost"], "file": "x"}]


def test_a_failure_is_explained_in_the_error_and_as_an_event(tmp_path: Path) -> None:
    done = run(tmp_path, shell("exit 3"))
    assert isinstance(done.error, BuildError)
    assert done.error.likely_cause() == "a cause; run: mend"
    again = XpuBuildError.from_json(json.loads(json.dumps(done.error.to_json())))
    assert again.explanation == done.error.explanation
    assert [notice.text for notice in done.sink.of(Notice)] == ["likely cause: a cause; run: mend"]


def test_who_interrupts_is_told_nothing_of_causes(tmp_path: Path) -> None:
    cancel = Cancel()
    cancel.set("SIGINT")
    done = run(tmp_path, shell("sleep 100"), cancel=cancel)
    assert isinstance(done.error, InterruptedByUserError)
    assert not done.sink.of(Notice)


def test_line_numbers_are_those_of_the_log(tmp_path: Path) -> None:
    commands = (
        shell("echo one; echo Progress 3 of 9; printf 'two\\rthree'"),
        shell("echo four", env={"A": "1\n2"}),
    )
    done = run(tmp_path, *commands)
    (watcher,) = done.watchers
    log = (tmp_path / "logs" / "torch.log").read_text("utf-8").removesuffix("\n").split("\n")
    assert watcher.lines == list(enumerate(log, 1))
    assert "four" in log


def test_a_watcher_changes_no_fingerprint() -> None:
    plain = Step(id="a", title="a", commands=(shell("true"),))
    watch: Callable[[], Watcher] = lambda: Scripted(Path("x"))  # noqa: E731
    watched = Step(id="a", title="a", commands=(shell("true"),), watch=watch)
    assert fingerprints([plain]) == fingerprints([watched])

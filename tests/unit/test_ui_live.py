from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpubuild.engine.events import (
    RunFinished,
    RunForecast,
    RunStarted,
    StepFinished,
    StepProgress,
    StepStarted,
)
from xpubuild.ui.live_draw import ASCII, UNICODE, Painter
from xpubuild.ui.live_rows import choose_rows
from xpubuild.ui.live_state import CANCELLED, DONE, FAILED, PENDING, RUNNING, UP_TO_DATE, RunView, StepView

T0 = 1_700_000_000.0
STATES = (PENDING, RUNNING, DONE, UP_TO_DATE, FAILED, CANCELLED)


def view() -> RunView:
    """Return a run with a step in every state and two that run."""
    run = RunView()
    names = ("env", "src", "pytorch", "vision", "ops", "verify")
    run.apply(
        RunStarted(
            T0, "2.8", "/home/u/über space/ws", tuple((name, f"Title of {name}") for name in names), ()
        )
    )
    run.apply(StepFinished(T0, "env", "Title of env", "up-to-date", 0.0))
    run.apply(StepStarted(T0, "src", "Title of src", "/l/src.log"))
    run.apply(StepFinished(T0 + 5, "src", "Title of src", "done", 5.0))
    run.apply(StepStarted(T0 + 5, "pytorch", "Title of pytorch", "/l/p.log", "its inputs changed"))
    run.apply(StepStarted(T0 + 5, "vision", "Title of vision", "/l/v.log", "not run here before"))
    run.apply(StepProgress(T0 + 35, "pytorch", 345, 1380, "edges", 0.5, 90.0, "compiling Reduce.cpp"))
    run.apply(StepStarted(T0 + 5, "ops", "Title of ops", "/l/ops.log"))
    run.apply(StepFinished(T0 + 9, "ops", "Title of ops", "failed", 4.0, 0, "status 1"))
    return run


def lines(
    run: RunView, columns: int = 80, rows: int = 24, now: float = T0 + 40, ascii_only: bool = False
) -> list[str]:
    painter = Painter(columns, ASCII if ascii_only else UNICODE)
    return [text.plain for text in painter.frame(run, now, rows)]


def test_picture_of_a_run() -> None:
    assert lines(view()) == [
        "2.8  /home/u/über space/ws",
        "  ✓ env      Title of env                                            up to date",
        "  ✓ src      Title of src                                                 5.0 s",
        "  ⠋ pytorch  Title of pytorch                                           0:00:35",
        "    ━━────────   345/1380 edges  25%  30/min  ETA 0:01:25  compiling Reduce.cpp",
        "  ⠋ vision   Title of vision                                            0:00:35",
        "    not run here before",
        "  ✗ ops      Title of ops: status 1                                       4.0 s",
        "    log: /l/ops.log",
        "  · verify   Title of verify",
        "2 of 6 steps done · 1 failed · 0:00:40 · Ctrl-C stops; run again to resume",
    ]


def test_what_is_left_stands_below_the_picture() -> None:
    run = view()
    longest = (("compiling Reduce.cpp", 190.0, 4 << 30), ("linking libtorch_xpu.so", 65.0, 1 << 30))
    run.apply(RunForecast(T0 + 40, 2400.0, (("pytorch", 2400.0),), ("vision",), 5 << 30, longest))
    drawn = lines(run, columns=120)
    slow = "longest: compiling Reduce.cpp (3m 10s, 4.0 GiB), linking libtorch_xpu.so (1m 05s, 1.0 GiB)"
    assert drawn[-2] == slow
    assert "0:00:40 · at least 40 min left · 5.0 GiB · Ctrl-C" in drawn[-1]
    assert len(lines(run, rows=12)) < 12
    assert not any("longest" in line for line in lines(run, rows=9))


def test_picture_in_ascii() -> None:
    drawn = lines(view(), ascii_only=True)
    assert all(line.replace("ü", "u").isascii() for line in drawn)
    assert drawn[4].startswith("    ##--------   345/1380 edges")


def test_the_estimate_runs_down_between_events_and_then_goes() -> None:
    assert "ETA 0:00:30" in lines(view(), now=T0 + 95)[4]
    assert "ETA" not in lines(view(), now=T0 + 200)[4]


def test_the_picture_that_stays() -> None:
    run = view()
    run.apply(RunFinished(T0 + 50, "failed", 50.0))
    run.break_off(T0 + 50)
    drawn = [text.plain for text in Painter(60, UNICODE).last_frame(run, T0 + 50)]
    assert drawn[3:] == [
        "  ■ pytorch  Title of pytorch                          45 s",
        "  ■ vision   Title of vision                           45 s",
        "  ✗ ops      Title of ops                             4.0 s",
        "    status 1",
        "    log: /l/ops.log",
        "  · 1 step not started",
        "failed after 50 s",
    ]


def test_a_run_that_was_broken_off_says_so() -> None:
    assert Painter(60, UNICODE).last_frame(view(), T0 + 50)[-1].plain == "interrupted after 50 s"


def test_cut_text_is_marked() -> None:
    run = RunView()
    run.apply(RunStarted(T0, "q", "/ws", (("step", "t" * 200),), ()))
    assert lines(run, columns=40)[1] == "  · step  " + "t" * 28 + "…"
    assert lines(run, columns=40, ascii_only=True)[1].endswith("tt...")


def test_wide_characters_take_two_cells() -> None:
    run = RunView()
    run.apply(RunStarted(T0, "q", "/ws", (("ステップ", "日本語の題" * 20), ("ascii", "t")), ()))
    texts = Painter(41, UNICODE).frame(run, T0, 24)
    assert all(text.cell_len <= 40 for text in texts)
    assert texts[1].plain.index("日") + 4 == texts[2].plain.index("t"), "titles start in one column"


def test_foreign_text_cannot_break_the_picture() -> None:
    run = RunView()
    run.apply(RunStarted(T0, "q\x1b[2J", "/w\ns", (("a\rb", "x\ny\x1b[31m"),), ()))
    run.apply(StepStarted(T0, "a\rb", "x", "", "re\nason"))
    run.apply(StepProgress(T0, "a\rb", 9, 3, "e\ndges", 1.0, 1.0, "d\x07etail\r\n"))
    for line in lines(run):
        assert not {"\n", "\r", "\x1b", "\x07"} & set(line)


def test_many_steps_in_a_small_window() -> None:
    steps = [StepView(f"s{n}", "t", DONE) for n in range(30)]
    steps += [StepView("r1", "t", RUNNING), StepView("r2", "t", RUNNING)]
    steps += [StepView(f"p{n}", "t") for n in range(30)]
    rows = choose_rows(steps, 12)
    told = [row.words or (row.step.id if row.step and not row.below else "...") for row in rows]
    assert told == [
        "27 more done",
        "s27",
        "s28",
        "s29",
        "r1",
        "...",
        "r2",
        "...",
        "p0",
        "p1",
        "p2",
        "27 more to do",
    ]
    tight = choose_rows(steps, 5)
    assert [row.words or (row.step and row.step.id) for row in tight] == [
        "29 more done", "s29", "r1", "r2", "30 more to do",
    ]  # fmt: skip
    assert len(choose_rows(steps, 1)) == 1
    assert [row.alone for row in tight] == [False, True, True, True, False]


_steps = st.lists(st.sampled_from(STATES), max_size=60).map(
    lambda states: [StepView(f"step-{n}", f"Title {n}", state, log="/l") for n, state in enumerate(states)]
)


@settings(deadline=None)
@given(_steps, st.integers(1, 80))
def test_rows_fit_and_every_step_is_shown_or_counted(steps: list[StepView], room: int) -> None:
    rows = choose_rows(steps, room)
    assert len(rows) <= room
    shown = [row.step.id for row in rows if row.step is not None and not row.below]
    assert shown == sorted(set(shown), key=lambda identifier: int(identifier.split("-")[1]))
    if room >= 2:
        words = " ".join(row.words for row in rows)
        counted = sum(int(word) for word in words.replace(",", "").split() if word.isdigit())
        assert len(shown) + counted == len(steps)
    if room >= 2 + sum(step.state in (RUNNING, FAILED, CANCELLED) for step in steps):
        assert {step.id for step in steps if step.state in (RUNNING, FAILED)} <= set(shown)


@settings(deadline=None)
@given(_steps, st.integers(10, 200), st.integers(2, 60), st.text(max_size=30), st.integers(0, 10**6))
def test_a_frame_fits_the_window(
    steps: list[StepView], columns: int, rows: int, text: str, done: int
) -> None:
    run = RunView(recipe=text, workspace=text * 9, began=T0)
    for step in steps:
        step.title, step.detail, step.began = text, text * 5, T0
        if step.state == RUNNING:
            step.progress = StepProgress(T0, step.id, done, 10**6, text, 1e-3, 1e7, text)
        run.steps[step.id] = step
    for glyphs in (UNICODE, ASCII):
        frame = Painter(columns, glyphs).frame(run, T0 + 1e6, rows)
        assert len(frame) < max(rows, 3)
        assert all(text.cell_len < columns for text in frame)


@pytest.mark.parametrize("columns", [1, 5, 9])
def test_a_tiny_window_does_no_harm(columns: int) -> None:
    assert lines(view(), columns=columns, rows=1)

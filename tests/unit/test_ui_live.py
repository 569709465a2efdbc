"""The picture of a run, and which steps of a long plan it shows."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from xpubuild.engine.events import (
    RunFinished,
    RunForecast,
    RunStarted,
    StepFinished,
    StepProgress,
    StepStarted,
)
from xpubuild.ui.live import (
    CANCELLED,
    DONE,
    FAILED,
    PENDING,
    RUNNING,
    UP_TO_DATE,
    Painter,
    RunView,
    StepView,
    choose,
)
from xpubuild.ui.terminal import Terminal

T0 = 1_700_000_000.0
STATES = (PENDING, RUNNING, DONE, UP_TO_DATE, FAILED, CANCELLED)


def view() -> RunView:
    """Return a run with steps that are done, run, failed and are still to do."""
    run = RunView()
    names = ("env", "src", "pytorch", "vision", "ops", "verify")
    for event in (
        RunStarted(
            T0, "2.8", "/home/u/über space/ws", tuple((name, f"Title of {name}") for name in names), ("env",)
        ),
        StepStarted(T0, "src", "Title of src", "/l/src.log"),
        StepFinished(T0 + 5, "src", "Title of src", "done", 5.0),
        StepStarted(T0 + 5, "pytorch", "Title of pytorch", "/l/p.log", "its inputs changed"),
        StepStarted(T0 + 5, "vision", "Title of vision", "/l/v.log", "not run here before"),
        StepProgress(T0 + 35, "pytorch", 345, 1380, "edges", 0.5, 90.0, "compiling Reduce.cpp"),
        StepStarted(T0 + 5, "ops", "Title of ops", "/l/ops.log"),
        StepFinished(T0 + 9, "ops", "Title of ops", "failed", 4.0, 0, "status 1"),
    ):
        run.apply(event)
    return run


def painter(*, unicode: bool = True) -> Painter:
    return Painter(Terminal(io.StringIO(), live=True, color=False, unicode=unicode))


def drawn(picture: RenderableType, columns: int = 80) -> list[str]:
    """Return the rows of a picture, as rich draws it for a terminal without colour."""
    console = Console(file=io.StringIO(), width=columns, height=24, color_system=None, legacy_windows=False)
    lines = console.render_lines(picture, pad=False)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def frame(run: RunView, columns: int = 80, rows: int = 24, now: float = T0 + 40) -> list[str]:
    return drawn(painter().frame(run, now, rows, columns), columns)


def test_picture_of_a_run() -> None:
    assert frame(view(), 89) == [
        "2.8  /home/u/über space/ws",
        "  ✓ env      Title of env                                                      up to date",
        "  ✓ src      Title of src                                                           5.0 s",
        "  ⠋ pytorch  Title of pytorch                                                     0:00:35",
        "             ━━─────────   345/1380 edges  25%  30/min  ETA 0:01:25  compili…",
        "  ⠋ vision   Title of vision                                                      0:00:35",
        "             not run here before",
        "  ✗ ops      Title of ops: status 1                                                 4.0 s",
        "             log: /l/ops.log",
        "  · verify   Title of verify",
        "2 of 6 steps done · 1 failed · 0:00:40 · Ctrl-C stops; run again to resume",
        "",
    ]


def test_what_is_left_stands_below_the_picture() -> None:
    run = view()
    run.apply(RunForecast(T0 + 40, 2400.0, (("pytorch", 2400.0),), ("vision",)))
    assert "0:00:40 · at least 40 min left · Ctrl-C" in frame(run, columns=120)[-2]


def test_the_picture_that_stays() -> None:
    run = view()
    run.apply(RunFinished(T0 + 50, "failed", 50.0))
    run.break_off(T0 + 50)
    assert drawn(painter().last_frame(run, T0 + 50, 59), 59)[3:] == [
        "  ■ pytorch  Title of pytorch                          45 s",
        "  ■ vision   Title of vision                           45 s",
        "  ✗ ops      Title of ops                             4.0 s",
        "  · 1 step not started",
        "ops: status 1",
        "ops: log: /l/ops.log",
        "FAILED after 50 s",
    ]
    assert drawn(painter().last_frame(view(), T0 + 50, 60), 60)[-1] == "interrupted after 50 s"


def test_ascii_and_wide_characters() -> None:
    run = RunView()
    run.apply(RunStarted(T0, "q", "/ws", (("step", "t" * 200), ("s", "日本語の題" * 20)), ()))
    run.apply(StepStarted(T0, "step", "t" * 200, "/l", ""))
    run.apply(StepProgress(T0, "step", 1, 2, "edges", 0.0, 0.0))
    lines = drawn(painter(unicode=False).frame(run, T0, 24, 40), 40)
    assert lines[1].isascii()
    assert lines[2].strip().startswith("###---  1/2 edges")
    wide = drawn(painter().frame(run, T0, 24, 41), 41)
    assert wide[3].index("日") == wide[1].index("ttt"), "titles start in one column"
    assert wide[3].endswith("…")


def test_foreign_text_cannot_break_the_picture() -> None:
    run = RunView()
    run.apply(RunStarted(T0, "q\x1b[2J", "/w\ns", (("a\rb", "x\ny\x1b[31m"),), ()))
    run.apply(StepStarted(T0, "a\rb", "x", "", "re\nason"))
    run.apply(StepProgress(T0, "a\rb", 9, 3, "e\ndges", 1.0, 1.0, "d\x07etail\r\n"))
    assert len(frame(run)) == 5
    for line in frame(run):
        assert not {"\n", "\r", "\x1b", "\x07"} & set(line)


def test_many_steps_in_a_small_window() -> None:
    steps = [StepView(f"s{n}", "t", DONE) for n in range(30)]
    steps += [StepView("r1", "t", RUNNING), StepView("r2", "t", RUNNING)]
    steps += [StepView(f"p{n}", "t") for n in range(30)]
    chosen, whole = choose(steps, 12)
    assert [step.id for step in chosen] == ["s26", "s27", "s28", "s29", "r1", "r2", "p0", "p1", "p2"]
    assert whole
    tight, whole = choose(steps, 3)
    assert [step.id for step in tight] == ["r1", "r2"]
    assert not whole
    run = RunView(steps={step.id: step for step in steps})
    assert "  59 more steps" in frame(run, rows=6)


_steps = st.lists(st.sampled_from(STATES), max_size=60).map(
    lambda states: [StepView(f"step-{n}", f"Title {n}", state, log="/l") for n, state in enumerate(states)]
)


@settings(deadline=None, max_examples=50)
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
    for unicode in (True, False):
        lines = drawn(painter(unicode=unicode).frame(run, T0 + 1e6, rows, columns), columns)
        assert len(lines) <= max(rows, 3)

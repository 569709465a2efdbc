"""The picture of a run, and which steps of a long plan it shows."""

from __future__ import annotations

import io

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from xpubuild.engine.events import (
    Event,
    RunFinished,
    RunForecast,
    RunStarted,
    StepFinished,
    StepProgress,
    StepStarted,
)
from xpubuild.ui.live import Picture
from xpubuild.ui.terminal import Terminal

T0 = 1_700_000_000.0


def picture(*events: Event, unicode: bool = True) -> Picture:
    made = Picture(Terminal(io.StringIO(), live=True, color=False, unicode=unicode))
    for event in events:
        made.apply(event)
    return made


def view() -> Picture:
    """Return a run with steps that are done, run, failed and are still to do."""
    names = ("env", "src", "pytorch", "vision", "ops", "verify")
    return picture(
        RunStarted(
            T0, "2.8", "/home/u/über space/ws", tuple((name, f"Title of {name}") for name in names), ("env",)
        ),
        StepStarted(T0, "src", "Title of src", "/l/src.log"),
        StepFinished(T0 + 5, "src", "Title of src", "done", 5.0),
        StepStarted(T0 + 5, "pytorch", "Title of pytorch", "/l/p.log", "its inputs changed"),
        StepStarted(T0 + 5, "vision", "Title of vision", "/l/v.log", "not run here before"),
        StepProgress(T0 + 35, "pytorch", 345, 1380, "edges", "compiling Reduce.cpp"),
        StepStarted(T0 + 5, "ops", "Title of ops", "/l/ops.log"),
        StepFinished(T0 + 9, "ops", "Title of ops", "failed", 4.0, 0, "status 1"),
    )


def drawn(shown: RenderableType, columns: int = 80) -> list[str]:
    """Return the rows of a picture, as rich draws it for a terminal without colour."""
    console = Console(file=io.StringIO(), width=columns, height=24, color_system=None, legacy_windows=False)
    lines = console.render_lines(shown, pad=False)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


def frame(run: Picture, columns: int = 80, rows: int = 24, now: float = T0 + 40) -> list[str]:
    return drawn(run.frame(now, rows, columns), columns)


def test_picture_of_a_run() -> None:
    assert frame(view(), 89) == [
        "2.8  /home/u/über space/ws",
        "  ✓ env      Title of env                                                      up to date",
        "  ✓ src      Title of src                                                           5.0 s",
        "  ⠋ pytorch  Title of pytorch                                                     0:00:35",
        "             ━━─────────  345/1380 edges  25%  compiling Reduce.cpp",
        "  ⠋ vision   Title of vision                                                      0:00:35",
        "             not run here before",
        "  ✗ ops      Title of ops                                                           4.0 s",
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
    assert drawn(run.last_frame(T0 + 50, 59), 59)[3:] == [
        "  ■ pytorch  Title of pytorch                          45 s",
        "  ■ vision   Title of vision                           45 s",
        "  ✗ ops      Title of ops                             4.0 s",
        "  · 1 step not started",
        "ops: status 1",
        "ops: log: /l/ops.log",
        "FAILED after 50 s",
    ]
    assert drawn(view().last_frame(T0 + 50, 60), 60)[-1] == "interrupted after 50 s"


def test_ascii_and_wide_characters() -> None:
    events = (
        RunStarted(T0, "q", "/ws", (("step", "t" * 200), ("s", "日本語の題" * 20)), ()),
        StepStarted(T0, "step", "t" * 200, "/l", ""),
        StepProgress(T0, "step", 1, 2, "edges"),
    )
    lines = frame(picture(*events, unicode=False), 40, now=T0)
    assert lines[1].isascii()
    assert lines[2].strip().startswith("###---  1/2 edges")
    wide = frame(picture(*events), 41, now=T0)
    assert wide[3].index("日") == wide[1].index("ttt"), "titles start in one column"
    assert wide[3].endswith("…")


def test_foreign_text_cannot_break_the_picture() -> None:
    run = picture(
        RunStarted(T0, "q\x1b[2J", "/w\ns", (("a\rb", "x\ny\x1b[31m"),), ()),
        StepStarted(T0, "a\rb", "x", "", "re\nason"),
        StepProgress(T0, "a\rb", 9, 3, "e\ndges", "d\x07etail\r\n"),
    )
    assert len(frame(run)) == 5
    for line in frame(run):
        assert not {"\n", "\r", "\x1b", "\x07"} & set(line)


def test_what_runs_is_drawn_first_in_a_small_window() -> None:
    names = [f"s{n}" for n in range(60)]
    run = picture(
        RunStarted(T0, "q", "/ws", tuple((name, "t") for name in names), tuple(names[:30])),
        StepStarted(T0, "s30", "t", "/l"),
    )
    assert [line.split()[1] for line in frame(run, rows=9) if "t" in line.split()] == [
        "s30", "s31", "s32", "s33",
    ]  # fmt: skip
    assert "  56 more steps" in frame(run, rows=9)
    assert frame(run, rows=3)[0].split()[1] == "s30"


_texts = st.text(max_size=30)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.sampled_from(["pending", "running", "done", "failed"]), max_size=60),
    st.tuples(st.integers(10, 200), st.integers(2, 60)), _texts, st.integers(0, 10**6), st.booleans(),
)  # fmt: skip
def test_a_frame_fits_the_window(
    states: list[str], size: tuple[int, int], text: str, done: int, unicode: bool
) -> None:
    columns, rows = size
    steps = {f"step-{number}": state for number, state in enumerate(states)}
    run = picture(RunStarted(T0, text, text * 9, tuple((name, text) for name in steps), ()), unicode=unicode)
    for name, state in steps.items():
        if state != "pending":
            run.apply(StepStarted(T0, name, text, "/l", text * 5))
        if state == "running":
            run.apply(StepProgress(T0, name, done, 10**6, text, text))
        elif state != "pending":
            run.apply(StepFinished(T0, name, text, state, 1.0, 0, text * 5))
    assert len(frame(run, columns, rows, T0 + 1e6)) <= max(rows, 3)

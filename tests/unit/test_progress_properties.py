"""What holds for the progress meter whatever a command prints and however the clock runs."""

from __future__ import annotations

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from xpubuild.engine.progress import Progress, ProgressMeter

_counts = st.integers(min_value=0, max_value=10**16)
_words = st.text(max_size=30)
_lines = st.one_of(
    st.text(),
    st.builds("[{}/{}] {}".format, _counts, _counts, _words),
    st.builds("Receiving objects:  45% ({}/{}){}".format, _counts, _counts, _words),
    st.builds("remote: {}: 1% ({}/{})".format, _words, _counts, _counts),
    st.builds("Progress {} of {}".format, _counts, _counts),
    st.builds("-- {}".format, _words),
    st.builds("Downloading {}".format, _words),
    st.just("[0/1] Re-running CMake..."),
)
_steps = st.floats(min_value=-10, max_value=1e6, allow_nan=False)


def _feed(meter: ProgressMeter, line: str) -> Progress | None:
    shown = meter.feed(line)
    return shown if shown is not None else meter.pending()


@settings(deadline=None)
@given(st.lists(st.tuples(_lines, _steps), max_size=30))
def test_never_raises_and_the_numbers_make_sense(script: list[tuple[str, float]]) -> None:
    now = [0.0]
    meter = ProgressMeter(lambda: now[0])
    for line, step in script:
        now[0] += step
        found = _feed(meter, line)
        if found is not None:
            assert 0 <= found.done <= found.total
            assert found.rate >= 0
            assert math.isfinite(found.rate)
            assert found.eta_s >= 0
            assert math.isfinite(found.eta_s)
            assert found.total or not found.done


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0, 100)), min_size=1), st.text(max_size=20))
def test_done_never_falls_within_a_count(script: list[tuple[int, float]], text: str) -> None:
    now = [0.0]
    meter = ProgressMeter(lambda: now[0])
    before = 0
    for done, step in script:
        now[0] += step
        found = _feed(meter, f"[{done}/501] {text}")
        assert found is not None
        assert found.done >= before
        assert found.total == 501
        before = found.done


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=300))
def test_not_more_than_five_a_second(gaps: list[float]) -> None:
    now = [0.0]
    meter = ProgressMeter(lambda: now[0])
    shown = []
    for index, gap in enumerate(gaps):
        now[0] += gap
        if meter.feed(f"[{index}/100000] x") is not None:
            shown.append(now[0])
    pairs = itertools.pairwise(shown)
    assert all(later - earlier >= 0.2 - 1e-9 for earlier, later in pairs)

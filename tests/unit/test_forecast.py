"""What is left of a run: the arithmetic, and builds replayed edge by edge with a clock of the test."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from xpubuild.engine.activity import Activity, Unit, made_by
from xpubuild.engine.edges import Counted, History, edge_key, edge_of, wall_shares
from xpubuild.engine.estimate import Estimate
from xpubuild.engine.events import (
    Event,
    RunForecast,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
)
from xpubuild.engine.forecast import Forecaster, Pace, left
from xpubuild.engine.model import Step
from xpubuild.ui import wording

UNHURRIED = settings(suppress_health_check=[HealthCheck.too_slow])
SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=15)


@dataclass
class Kept:
    events: list[Event] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None:
        pass


@UNHURRIED
@given(SPANS)
def test_shares_add_up_to_the_time_in_which_anything_ran(pairs: list[tuple[int, int]]) -> None:
    spans = [(float(start), float(start + length)) for start, length in pairs]
    busy = {moment for start, end in spans for moment in range(int(start), int(end))}
    shares = wall_shares(spans)
    assert sum(shares) == pytest.approx(len(busy))
    assert all(
        -1e-9 <= share <= end - start + 1e-9 for share, (start, end) in zip(shares, spans, strict=True)
    )


def test_what_runs_alone_counts_in_full() -> None:
    assert wall_shares([(0, 10), (0, 10), (10, 30)]) == pytest.approx([5, 5, 20])


def test_an_edge_has_the_same_key_in_every_workspace_and_line() -> None:
    key = "torch_cpu.dir/core/x.cpp.o"
    assert edge_key("/home/a/build/caffe2/CMakeFiles/torch_cpu.dir/core/x.cpp.o") == key
    assert edge_of("Building CXX object caffe2/CMakeFiles/torch_cpu.dir/core/x.cpp.o") == key
    assert (
        edge_of("c++ -MMD -MF y.d -c /src/x.cpp -o caffe2/CMakeFiles/torch_cpu.dir/core/x.cpp.o -O2") == key
    )
    assert edge_of("Linking CXX shared library lib/libtorch_cpu.so") == "lib/libtorch_cpu.so"


def test_a_build_whose_first_files_are_small_is_known_from_an_earlier_one() -> None:
    edges = [(f"small{number}.o", number, number + 1.0) for number in range(10)]
    edges.append(("large.o", 10.0, 100.0))
    counted = Counted(History.of(edges), done=10, total=11)
    for name, _, _ in edges[:10]:
        counted.finished(edge_key(name))
    assert counted.fraction() == pytest.approx(0.1)
    assert Counted(done=10, total=11).fraction() == pytest.approx(10 / 11)
    # Half of the edges are left of a build that goes on: half of the time that the rest took.
    assert Counted(
        History({"a": 1.0}),
        done=1,
        total=2,
    ).fraction() == pytest.approx(0.5)


@UNHURRIED
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0.1, 50), max_size=6),
    st.lists(st.sampled_from("abcdefgh"), max_size=8, unique=True),
    st.integers(0, 20),
)
@example({"a": 5.404365205067589, "b": 1.877311824904286, "c": 27.479566721062092}, ["a", "c", "b"], 0).via(
    "sums in another order leave less than nothing"
)
def test_a_fraction_is_one(known: dict[str, float], seen: list[str], more: int) -> None:
    counted = Counted(History(known), done=len(seen), total=len(seen) + more)
    for key in seen:
        counted.finished(key)
    assert 0 <= counted.fraction() <= 1
    if seen and not more:
        assert counted.fraction() == pytest.approx(1)


@UNHURRIED
@given(st.floats(0, 1), st.floats(0, 1e6), st.none() | st.floats(0, 1e6), st.integers(0, 9999))
def test_nothing_is_ever_less_than_nothing(
    fraction: float, passed: float, expected: float | None, total: int
) -> None:
    found = left(fraction, passed, expected, total)
    assert found is None or (math.isfinite(found) and found >= 0)


def test_what_is_seen_outweighs_what_was_expected() -> None:
    assert left(0.0, 0.0, 100.0, 1000) == pytest.approx(100.0)
    assert left(0.5, 50.0, 100.0, 1000) == pytest.approx(50.0)
    assert left(0.5, 100.0, None, 1000) == pytest.approx(100.0)
    # Twice as slow as expected: near to the 100 s that the pace tells, not to the 0 s that the guess does.
    assert left(0.5, 100.0, 100.0, 1000) == pytest.approx(91, abs=1)
    # Of few edges the first half tells less.
    assert left(0.5, 100.0, 100.0, 10) == pytest.approx(66, abs=1)
    assert left(0.0, 5.0, None, 1000) is None


STEPS = (Step("env", "env"), Step("a.wheel", "a", needs=("env",)), Step("verify", "v", needs=("a.wheel",)))
EXPECTED = {"env": Estimate(10.0), "a.wheel": Estimate(100.0), "verify": Estimate(20.0)}


def forecaster(kept: Kept, now: list[float], **expected: Estimate) -> Forecaster:
    looks = Activity(2 << 30, (Unit("compiling x.cpp", 65.0, 1 << 30),))
    return Forecaster(kept, STEPS, expected or EXPECTED, clock=lambda: now[0], look=lambda: looks)


def test_the_whole_of_a_run_goes_down_as_its_steps_do() -> None:
    now, kept = [1000.0], Kept()
    run = forecaster(kept, now)
    assert run.forecast().left_s == pytest.approx(130)
    run.emit(StepStarted(1000, "env", "env", "log"))
    now[0] = 1004
    assert run.forecast().left_s == pytest.approx(126)
    # Late, and nothing tells how late: never nothing, and what is to come may be late as well.
    now[0] = 1040
    late = 100 * (40 + 50) / (10 + 50) + 20 * (40 + 10) / (10 + 10)
    assert run.forecast().left_s == pytest.approx(10 + late)
    run.emit(StepFinished(1040, "env", "env", "done", 40.0))
    assert run.forecast().left_s == pytest.approx(late)
    run.emit(StepStarted(1040, "a.wheel", "a", "log"))
    run.emit(StepProgress(1050, "a.wheel", 0, 4, "edges", 0, 0))
    run.emit(StepProgress(1090, "a.wheel", 2, 4, "edges", 0, 0))
    now[0] = 1090
    found = run.forecast()
    assert dict(found.steps)["a.wheel"] == pytest.approx(0.5 * (40 + 2.6 * 150) / (0.5 + 2.6))
    assert found.left_s == pytest.approx(dict(found.steps)["a.wheel"] + 20 * 50 / 20)
    assert found.unknown == ()
    assert len(kept.events) == 5


def test_a_slow_second_says_nothing_about_an_hour() -> None:
    pace = Pace()
    assert pace.of(7.0) == pytest.approx(7)
    pace.add(20.0, 1.0)
    pace.add(99.0, None)
    assert pace.of(1.0) == pytest.approx(20.5 / 1.5)
    assert pace.of(3600.0) == pytest.approx(3600, rel=0.011)
    assert pace.of(0.0) == 0
    assert pace.of(None) is None


def test_a_step_that_was_up_to_date_is_not_waited_for() -> None:
    run = forecaster(Kept(), [0.0])
    run.emit(StepFinished(0, "a.wheel", "a", "up-to-date", 0.0))
    assert run.forecast().left_s == pytest.approx(30)


def test_what_nothing_tells_of_makes_it_at_least() -> None:
    found = forecaster(Kept(), [0.0], env=Estimate(1200.0), verify=Estimate(None)).forecast()
    assert found.unknown == ("verify",)
    assert (
        wording.forecast(found) == "at least 20 min left; 2.0 GiB; longest: compiling x.cpp (1m 05s, 1.0 GiB)"
    )


@pytest.mark.parametrize(
    ("seconds", "unknown", "text"),
    [
        (2400.0, (), "about 40 min left"), (3.0, (), "less than a minute left"), (0.0, ("x",), ""),
        (3.0, ("x", "y"), "less than a minute left, without x, y"), (10_000.0, (), "about 2 h 45 min left"),
    ],
)  # fmt: skip
def test_words(seconds: float, unknown: tuple[str, ...], text: str) -> None:
    assert wording.left(RunForecast(0, seconds, (), unknown, 0, ())) == text


def test_forecasts_come_by_themselves_while_something_runs() -> None:
    kept = Kept()
    with Forecaster(kept, STEPS, EXPECTED, look=Activity, every_s=0.01) as run:
        run.emit(StepStarted(0, "env", "env", "log"))
        while not any(isinstance(event, RunForecast) for event in list(kept.events)):
            time.sleep(0.005)
    count = len(kept.events)
    assert count >= 2
    assert [event.to_json()["event"] for event in kept.events[:2]] == ["step-started", "run-forecast"]


def test_lines_of_ninja_name_what_is_done() -> None:
    now, kept = [0.0], Kept()
    history = History.of([("q/a/one.o", 0, 90), ("q/a/two.o", 90, 100)])
    run = Forecaster(kept, STEPS, {"a.wheel": Estimate(None)}, {"a.wheel": history}, clock=lambda: now[0])
    run.emit(StepStarted(0, "a.wheel", "a", "log"))
    run.emit(StepProgress(0, "a.wheel", 0, 2, "edges", 0, 0))
    run.emit(StepOutput(45, "a.wheel", "  [1/2] c++ -c one.cpp -o /elsewhere/q/a/one.o"))
    run.emit(StepProgress(45, "a.wheel", 1, 2, "edges", 0, 0))
    now[0] = 45
    assert run.forecast().left_s == pytest.approx(5)


@pytest.mark.parametrize(
    ("argv", "made"),
    [
        (["/usr/bin/g++", "-O2", "-o", "x.o", "-c", "/src/x.cpp"], "compiling x.cpp"),
        (["ccache", "/usr/bin/c++", "-c", "x.cpp", "-o", "x.o"], "compiling x.cpp"),
        (["x86_64-linux-gnu-g++-12", "-shared", "-o", "lib/libx.so", "x.o"], "linking libx.so"),
        (["icpx", "-fsycl", "-c", "a.sycl"], "compiling a.sycl"),
        (["/bin/sh", "-c", "g++ -c x.cpp -o x.o"], ""),
        (["python", "-c", "print()"], ""),
        (["ninja", "-C", "build"], ""),
        (["g++", "--version"], ""),
        ([], ""),
    ],
)
def test_compilers_are_told_from_what_runs_them(argv: list[str], made: str) -> None:
    assert made_by(argv) == made

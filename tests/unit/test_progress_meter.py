"""Lines as ninja, git, pip and CMake really print them, and what the meter makes of them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpubuild.engine.events import StepProgress
from xpubuild.engine.progress import ProgressMeter


@dataclass
class Ticker:
    """A clock that a test moves."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def last(meter: ProgressMeter, clock: Ticker, lines: list[str], step_s: float = 1.0) -> StepProgress:
    """Feed lines at an even pace; return the newest progress."""
    newest = None
    for line in lines:
        clock.now += step_s
        newest = meter.feed(line) or newest
    assert newest is not None
    return newest


def test_ninja_is_counted() -> None:
    clock = Ticker()
    found = last(
        ProgressMeter("step", clock),
        clock,
        [f"[{n}/40] Building CXX object CMakeFiles/t.dir/s{n}.cpp.o" for n in range(1, 11)],
    )
    assert (found.done, found.total, found.unit, found.detail) == (10, 40, "edges", "compiling s10.cpp")


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (
            "Building CXX object caffe2/CMakeFiles/torch_cpu.dir/__/aten/src/ATen/Dispatch.cpp.o",
            "compiling Dispatch.cpp",
        ),
        ("Linking CXX shared library lib/libtorch_xpu.so", "linking libtorch_xpu.so"),
        ("c++ -MMD -MF /b/x.o.d -DX '-DY=a b' -fPIC -c /src/my_ext.cpp -o /b/x.o", "compiling my_ext.cpp"),
        ("/usr/bin/c++ -O2 -c '/über space/a b.cpp' -o '/b/a b.o'", "compiling a b.cpp"),
        ("c++ /b/x.o /b/y.o -shared -lc10 -o /b/ext.so", "linking ext.so"),
        ("Generating sources for XPU", "Generating sources for XPU"),
    ],
)
def test_ninja_detail_names_the_file(text: str, detail: str) -> None:
    found = ProgressMeter("step", Ticker()).feed(f"[1/3] {text}")
    assert found.detail == detail


def test_ninja_counts_anew_after_it_ran_cmake_again() -> None:
    clock = Ticker()
    meter = ProgressMeter("step", clock)
    last(meter, clock, ["[1/2000] a", "[2/2000] b"])
    again = last(meter, clock, ["[0/1] Re-running CMake..."])
    assert (again.total, again.detail) == (0, "re-running CMake")
    configured = last(meter, clock, ["-- Configuring done (2.1s)"])
    assert (configured.total, configured.detail) == (0, "Configuring done (2.1s)")
    fresh = last(meter, clock, ["[1/340] a"])
    assert (fresh.done, fresh.total) == (1, 340)


def test_a_ninja_inside_a_ninja_is_told_as_detail() -> None:
    """An ExternalProject (oneDNN inside PyTorch) prints its own counts in the middle of the outer one's."""
    clock = Ticker()
    meter = ProgressMeter("step", clock)
    last(meter, clock, ["[11/600] a", "[12/600] Performing build step for 'inner'"])
    for n in range(1, 21):
        found = last(meter, clock, [f"[{n}/20] Building CXX object CMakeFiles/i.dir/s{n}.cpp.o"])
        assert (found.done, found.total) == (12, 600)
        assert found.detail == f"[{n}/20] compiling s{n}.cpp"
    back = last(meter, clock, ["[13/600] Completed 'inner'"])
    assert (back.done, back.total, back.detail) == (13, 600, "Completed 'inner'")


def test_git_phases_count_for_themselves() -> None:
    clock = Ticker()
    meter = ProgressMeter("step", clock)
    found = last(
        meter,
        clock,
        [
            "Cloning into '/über space/src'...",
            "remote: Enumerating objects: 200, done.",
            "remote: Counting objects: 100% (200/200), done.",
            "Receiving objects:  22% (44/200), 1.30 MiB | 650.00 KiB/s",
            "Receiving objects:  45% (90/200), 2.60 MiB | 4.50 MiB/s",
        ],
    )
    assert (found.done, found.total, found.unit) == (90, 200, "objects")
    assert found.detail == "receiving objects, 2.60 MiB | 4.50 MiB/s"
    done = last(meter, clock, ["Receiving objects: 100% (200/200), 15.39 MiB | 15.39 MiB/s, done."])
    assert (done.done, done.detail) == (200, "receiving objects, 15.39 MiB | 15.39 MiB/s")
    deltas = last(meter, clock, ["Resolving deltas:   2% (1/50)"])
    assert (deltas.done, deltas.total, deltas.unit) == (1, 50, "deltas")
    files = last(meter, clock, ["Updating files:  50% (600/1200)"])
    assert (files.done, files.total, files.unit) == (600, 1200, "files")


def test_pip_words_are_details_without_counts() -> None:
    clock = Ticker()
    meter = ProgressMeter("step", clock)
    told = [
        last(meter, clock, [line]).detail
        for line in (
            "Collecting torch==2.13.0 (from -r requirements.txt (line 3))",
            "  Downloading mkl_static-2026.2.0-py2.py3-none-manylinux1_x86_64.whl (220.8 MB)",
            "Processing /some/where/numpy-2.2.6-cp311-cp311-linux_x86_64.whl (from -r /a/r.txt (line 4))",
            "Installing collected packages: mkl-static, ninja, cmake",
            "  Building wheel for xpubuild-ops (pyproject.toml): started",
        )
    ]
    assert told == [
        "collecting torch==2.13.0",
        "downloading mkl_static-2026.2.0-py2.py3-none-manylinux1_x86_64.whl (220.8 MB)",
        "processing numpy-2.2.6-cp311-cp311-linux_x86_64.whl",
        "installing collected packages: mkl-static, ninja, cmake",
        "building wheel for xpubuild-ops (pyproject.toml): started",
    ]


def test_pip_raw_progress_is_bytes_and_keeps_what_is_downloaded() -> None:
    clock = Ticker()
    found = last(
        ProgressMeter("step", clock),
        clock,
        [
            "Downloading a-1.whl (4.0 MB)",
            "Progress 0 of 4000000",
            "Progress 1000000 of 4000000",
            "Progress 2000000 of 4000000",
        ],
    )
    assert (found.done, found.total, found.unit) == (2_000_000, 4_000_000, "bytes")
    assert found.detail == "downloading a-1.whl (4.0 MB)"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[5/3] more done than there is",
        "[0/0] nothing",
        "[1/2",
        "note: [1/2] not at the start",
        "Receiving objects: 100% (3/2)",
        "Progress 5 of 0",
        "--",
        "-- ",
        "[99999999999999999/99999999999999999] no count",
        "In file included from a.cpp:1:",
    ],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert ProgressMeter("step", Ticker()).feed(line) is None


def test_at_most_five_a_second() -> None:
    clock = Ticker()
    meter = ProgressMeter("step", clock)
    shown = []
    for n in range(1, 1000):
        clock.now += 0.01
        found = meter.feed(f"[{n}/1000] a")
        if found is not None:
            shown.append(found.done)
    assert 45 <= len(shown) <= 51
    clock.now += 0.01
    complete = meter.feed("[1000/1000] a")
    assert complete is not None, "the end of a count is shown at once"


_counts = st.integers(min_value=0, max_value=10**16)
_words = st.text(max_size=30)
_printed = st.one_of(
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


@settings(deadline=None)
@given(st.lists(st.tuples(_printed, _steps), max_size=30))
def test_never_raises_and_the_numbers_make_sense(script: list[tuple[str, float]]) -> None:
    now = [0.0]
    meter = ProgressMeter("step", lambda: now[0])
    for line, step in script:
        now[0] += step
        found = meter.feed(line)
        if found is not None:
            assert 0 <= found.done <= found.total
            assert found.total or not found.done

"""The matcher of a running build."""

from __future__ import annotations

import io

import pytest
from support.explain_logs import ordinary, samples

from xpubuild.explain.document import Circumstances, explain_stream
from xpubuild.explain.prefilter import Prefilter
from xpubuild.explain.watch import LogWatcher

WANTED = Circumstances(facts=frozenset({"xpu-wanted"}))
FALL_BACK = "--   USE_XPU               : OFF"


def test_a_doomed_build_is_stopped_at_the_line_that_shows_it() -> None:
    watcher = LogWatcher(WANTED)
    assert [watcher.feed(line) for line in ordinary(500) if "USE_XPU" not in line].count(None) > 400
    found = watcher.feed(f"\x1b[32m{FALL_BACK}\x1b[0m")
    assert found is not None
    assert found.id == "xpu-switched-off"
    assert watcher.feed(FALL_BACK) is None, "reported once"


def test_a_build_for_the_cpu_goes_on() -> None:
    watcher = LogWatcher()
    assert watcher.feed(FALL_BACK) is None
    assert watcher.finish().findings == ()


def test_what_was_asked_for_may_stand_in_the_log() -> None:
    watcher = LogWatcher()
    assert watcher.feed("cmake -GNinja -DUSE_XPU=1 ..") is None
    assert watcher.feed(FALL_BACK) is not None


def test_a_full_disk_is_fatal_and_other_failures_are_not() -> None:
    watcher = LogWatcher()
    assert watcher.feed("ImportError: libsycl.so.8: cannot open shared object file") is None
    found = watcher.feed("cc1plus: fatal error: error writing to /tmp/x.s: No space left on device")
    assert found is not None
    assert found.line == 2


def test_it_says_at_the_end_what_explain_says_of_the_log() -> None:
    for sample in samples()[::17]:
        lines = [*ordinary(300, 3), *sample.lines, *ordinary(300, 4)]
        watcher = LogWatcher()
        for line in lines:
            watcher.feed(line)
        whole = explain_stream(io.BytesIO(("\n".join(lines) + "\n").encode()))
        assert watcher.finish() == whole


def test_a_line_with_odd_characters_is_one_line() -> None:
    watcher = LogWatcher()
    for line in ("a\nb", "\udcff", "\r", "", "c"):
        watcher.feed(line)
    assert watcher.finish().lines == 5


def test_memory_does_not_grow_with_the_lines() -> None:
    watcher = LogWatcher()
    line = "x" * 999
    assert [watcher.feed(line) for _ in range(200)] == [None] * 200
    assert 0 < sum(map(len, watcher._batch)) < 1 << 16
    assert watcher.finish().lines == 200


@pytest.mark.parametrize(
    "said", ["cmake -DUSE_CUDA=1 ..", "--   USE_CUDA              : ON", "cmake -DUSE_XPU=0 .."]
)
def test_a_build_for_another_device_lacks_nothing(said: str) -> None:
    log = f"{said}\nNot compiling with XPU. Could NOT find SYCL\n".encode()
    assert explain_stream(io.BytesIO(log)).findings == ()


@pytest.mark.parametrize(
    ("line", "hits"),
    [
        (b"c++ -Werror=return-type -Wno-error=pedantic -c a.cpp", 0),
        (b"c++ -Wno-error=pedantic -c a.cpp: error: bad", 1),
        (b"g++ c10/util/Exception.cpp torch/csrc/Exceptions.h", 0),
        (b"what(): sycl::exception", 1),
        (b"RuntimeException: no", 1),
        (b"ERROR_DEVICE_LOST", 1),
        (b"ErrorReport.cpp", 0),
    ],
)
def test_switches_and_file_names_are_no_errors(line: bytes, hits: int) -> None:
    assert len(Prefilter(["error", "exception"]).hits(line + b"\n", 0, len(line) + 1)) == hits

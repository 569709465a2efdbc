"""The watcher beside a running build."""

from __future__ import annotations

import io

from support.explain_logs import ordinary, samples

from xpubuild.explain.document import Circumstances, explain_stream
from xpubuild.explain.watch import LogWatcher

WANTED = Circumstances(facts=frozenset({"xpu-wanted"}))
FALL_BACK = "--   USE_XPU               : OFF"


def test_a_doomed_build_is_stopped_at_the_line_that_shows_it() -> None:
    watcher = LogWatcher(WANTED)
    assert [watcher.feed(line) for line in ordinary(500) if "USE_XPU" not in line].count(None) > 400
    found = watcher.feed(f"\x1b[32m{FALL_BACK}\x1b[0m")
    assert found is not None
    assert found.id == "setvars-not-sourced-silent-cpu-build"
    assert watcher.feed(FALL_BACK) is None, "told once"


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
    for sample in samples()[::7]:
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
    assert watcher._size == sum(map(len, watcher._batch))
    assert len(watcher._recent) == 40
    assert watcher.finish().lines == 200

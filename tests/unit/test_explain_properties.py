"""What surrounds a log, or is laid over it, changes nothing; no input breaks or slows the search."""

from __future__ import annotations

import functools
import io
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.explain_logs import Sample, embed, ordinary, samples

from xpubuild.explain import firsterror, normalise, prefilter
from xpubuild.explain.document import Explanation, explain_stream
from xpubuild.explain.load import shipped_rules
from xpubuild.explain.matcher import Matching
from xpubuild.explain.topics import topics

SAMPLES = [sample for sample in samples() if sample.kind == "log"]
CALM = ordinary(400, 7)


def explained(data: bytes) -> Explanation:
    return explain_stream(io.BytesIO(data))


def best(lines: list[str], end: str = "\n") -> str | None:
    findings = explained((end.join(lines) + end).encode()).findings
    return findings[0].id if findings else None


def in_the_middle(sample: Sample) -> list[str]:
    return [*CALM[:100], *sample.lines, *CALM[100:160]]


@functools.cache
def expected(sample: Sample) -> str | None:
    return best(in_the_middle(sample))


PREFIXES = (
    "2025-01-01T00:00:00.1234567Z ", "#12 34.567 ", "[build] ", "[2025-01-01T00:00:00.000Z] ", "12:00:01 ",
    "builder-1  | ", "2025-01-01T00:00:00.000000Z 01O ", "[1,0]<stderr>:", "3: ", "Jan  1 00:00:00 ",
    "build\tConfigure\t2025-01-01T00:00:00.1234567Z ", "2025-01-01 00:00:00,123 - ", "[rank0]: ", "torch> ",
    "(Worker pid=123) ", "[12:00:01] ", "2025-01-01T00:00:00.1Z [stage] ",
)  # fmt: skip
COLOURS = ("\x1b[31m", "\x1b[0m", "\x1b[01;31m\x1b[K", "\x1b[m", "\x1b]0;title\x07", "\x1b[38;5;196m")

any_sample = st.sampled_from(SAMPLES)


@given(sample=any_sample, prefix=st.sampled_from(PREFIXES))
@settings(max_examples=150, deadline=None)
def test_prefixes(sample: Sample, prefix: str) -> None:
    assert best([prefix + line for line in in_the_middle(sample)]) == expected(sample)


@given(sample=any_sample, data=st.data())
@settings(max_examples=100, deadline=None)
def test_colours(sample: Sample, data: st.DataObject) -> None:
    coloured = []
    for line in sample.lines:
        place = data.draw(st.integers(0, len(line)))
        colour = data.draw(st.sampled_from(COLOURS))
        coloured.append(colour + line[:place] + "\x1b[0m" + line[place:] + "\x1b[K")
    assert best([*CALM[:100], *coloured, *CALM[100:160]]) == expected(sample)


@given(sample=any_sample, end=st.sampled_from(["\r\n", "\r\r\n"]))
@settings(max_examples=60, deadline=None)
def test_ends_of_lines(sample: Sample, end: str) -> None:
    assert best(in_the_middle(sample), end) == expected(sample)


@given(sample=any_sample, steps=st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_progress_written_with_carriage_returns(sample: Sample, steps: int) -> None:
    progress = "\r".join(f"Receiving objects: {step}% ({step}/100)" for step in range(steps)) + "\r"
    first, *rest = sample.lines
    assert best([*CALM[:100], progress + first, *rest, *CALM[100:160]]) == expected(sample)


@given(sample=any_sample, gaps=st.lists(st.integers(0, 2), min_size=1, max_size=8), seed=st.integers(0, 99))
@settings(max_examples=150, deadline=None)
def test_lines_of_other_jobs_in_between(sample: Sample, gaps: list[int], seed: int) -> None:
    # Of a line that follows another the finding may speak only where both are whole and near.
    other = [line for line in ordinary(200, seed) if line.startswith("[")]
    mixed: list[str] = []
    for number, line in enumerate(sample.lines):
        mixed += [line, *other[number * 2 : number * 2 + gaps[number % len(gaps)]]]
    assert best([*CALM[:100], *mixed, *CALM[100:160]]) == expected(sample)


@given(sample=any_sample, data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_log_that_begins_late_and_ends_early(sample: Sample, data: st.DataObject) -> None:
    start, end = data.draw(st.integers(0, 99)), data.draw(st.integers(0, 60))
    lines = [
        CALM[start][len(CALM[start]) // 2 :],
        *CALM[start + 1 : 100],
        *sample.lines,
        *CALM[100 : 100 + end],
    ]
    text = "\n".join(lines).encode()
    findings = explained(text).findings
    assert findings
    assert findings[0].id == expected(sample)


def test_half_of_an_ordinary_line_is_ordinary() -> None:
    # "--   Library mkl_intel_lp64: not found", begun in its middle, is no shell that misses a program.
    assert best([line[len(line) // 2 :] for line in CALM]) is None


@given(data=st.binary(max_size=5000))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_have_no_finding_and_break_nothing(data: bytes) -> None:
    answer = explained(data)
    assert answer.findings == ()
    assert answer.lines <= data.count(b"\n") + 1
    answer.to_json()


WORDS = (
    "error",
    "fail",
    "not ",
    "FAILED:",
    "\r",
    "\n",
    "\x1b[",
    "/dev/dri",
    "CMake Error",
    "Killed",
    "'",
    "  ",
    ":1:",
)


@given(words=st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=8)), max_size=400))
@settings(max_examples=200, deadline=None)
def test_heaps_of_telling_words_break_nothing(words: list[str]) -> None:
    data = "".join(words).encode("utf-8", "surrogatepass")
    answer = explained(data)
    if answer.first_error:
        assert 1 <= answer.first_error.line <= answer.lines


@pytest.mark.parametrize("size", [7, 64, 1000])
def test_the_size_of_the_blocks_changes_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(io.BytesIO):
        def read(self, _size: int | None = -1, /) -> bytes:
            return super().read(size)

    for sample in SAMPLES[::9]:
        data = "\r\n".join(in_the_middle(sample)).encode()
        assert explain_stream(Slow(data)) == explained(data)


def test_lines_of_steps_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [embed(sample.lines, before=300, after=100) for sample in SAMPLES[::7]]
    quick = [explained(log) for log in logs]
    monkeypatch.setattr(prefilter, "_STEPS", re.compile(b"(?!)"))
    assert [explained(log) for log in logs] == quick


def test_utf16_as_a_windows_shell_writes_it() -> None:
    sample = SAMPLES[0]
    data = "\r\n".join(in_the_middle(sample)).encode("utf-16")
    assert explained(data).findings[0].id == expected(sample)


def adversaries() -> list[str]:
    longest = normalise.LONGEST
    pieces = (
        "a",
        " ",
        "/",
        "'",
        ":1:",
        "a:",
        "error: ",
        "a/",
        "x.so: ",
        "\\",
        "(1)",
        "ld: ",
        "0x",
        "1.",
        "-",
        "_Z",
        "A.",
    )
    lines = [piece * (longest // len(piece)) for piece in pieces]
    return lines + [line[:-1] + "!" for line in lines]


def patterns() -> list[tuple[str, re.Pattern[str]]]:
    # Those of the first error are asked for the start of a line only: \A keeps them there.
    found = [
        (name, re.compile(rf"\A(?:{pattern.pattern})", pattern.flags))
        for name in ("_ERROR_RULES", "_WRAPPER_RULES", "_COMPLAINT_RULES", "_HARMLESS")
        for pattern in (getattr(firsterror, name),)
    ]
    found += [(topic.id, re.compile(topic.line)) for topic in topics()]
    found += [(name, getattr(normalise, name)) for name in ("_PREFIX", "_DRAWN", "_BLANKS")]
    for entry in shipped_rules().signatures:
        for matcher in entry.match:
            near = [item.pattern for item in (*matcher.before, *matcher.after)]
            unless = matcher.unless
            if unless:
                near += [item.pattern for item in (unless.before, unless.after) if item]
                near += [unless.line] if unless.line else []
            found += [(entry.id, re.compile(text, re.IGNORECASE)) for text in (matcher.line, *near)]
    return found


def literal_words(pattern: str) -> list[str]:
    return re.findall(r"[A-Za-z_/.]{4,}", re.sub(r"\\.", " ", pattern))


def _cost(work: Callable[[], object]) -> float:
    """Return the processor seconds of the quickest of three runs: what else runs here slows some of them."""
    costs = []
    for _ in range(3):
        started = time.process_time()
        work()
        costs.append(time.process_time() - started)
    return min(costs)


def test_no_pattern_is_slow_on_any_line() -> None:
    """Measured against additions in a loop, whatever the processor.

    An eighth of a line is tried first: what is quick there is quick on a whole one, unless its cost grows
    with more than the square of the length, which an eighth shows as well.
    """
    general = adversaries()
    limit = 12 * _cost(lambda: sum(range(2_000_000)))
    slow = []
    for name, pattern in patterns():
        own = [
            (word + " ") * (normalise.LONGEST // (len(word) + 1)) for word in literal_words(pattern.pattern)
        ]
        for line in [*general, *own]:
            started = time.process_time()
            pattern.search(line[-len(line) // 8 :])
            if (time.process_time() - started) * 8**2 > limit:
                spent = _cost(functools.partial(pattern.search, line))
                if spent > limit:
                    slow.append((name, line[:20], round(spent / limit, 2)))
    assert not slow


def test_the_test_of_slow_patterns_can_find_one() -> None:
    pattern = re.compile(r"(?:a|aa){1,30}$")
    started = time.process_time()
    pattern.search("a" * 28 + "!")
    assert time.process_time() - started > 0.0005


def test_a_line_that_is_everywhere_costs_no_more_and_more() -> None:
    """Surroundings are looked at a limited number of times, however many lines ask for it."""
    line = "Library mkl_intel_lp64: not found"

    def cost(count: int) -> float:
        data = (line + "\n").encode() * count
        started = time.process_time()
        explained(data)
        return time.process_time() - started

    cost(1000)
    few, many = cost(4000), cost(16000)
    assert many < 8 * few


def test_memory_does_not_grow_with_the_log() -> None:
    matching = Matching(shipped_rules().index)
    assert matching.matches == []
    data = b"RuntimeError: UR error\n" * 20000
    assert len(explained(data).findings) == 1

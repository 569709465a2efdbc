"""From a failed command to the error a person reads."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpubuild.engine import process
from xpubuild.engine.failure import explain_failure, first_error_line, read_child_error
from xpubuild.engine.lines import LineReader
from xpubuild.engine.model import Step
from xpubuild.engine.process import ProcessResult
from xpubuild.engine.redact import Redactor
from xpubuild.errors import (
    EXIT_CODES,
    BuildError,
    FetchError,
    NoSpaceError,
    NoXpuError,
    OutOfMemoryError,
    XpuBuildError,
)

LOG = Path("/work space/logs/ops.wheel.log")
STEP = Step(id="ops.wheel", title="ops wheel")


def result(
    *tail: str, returncode: int = 1, timed_out: bool = False, cancelled: bool = False
) -> ProcessResult:
    return ProcessResult(
        argv=("/usr/bin/ninja", "install"),
        returncode=returncode,
        duration_s=12.0,
        peak_tree_bytes=3 << 30,
        tail=tail,
        timed_out=timed_out,
        cancelled=cancelled,
    )


@pytest.mark.parametrize(
    "line",
    [
        "cc1plus: fatal error: error writing to /tmp/x.s: No space left on device",
        "OSError: [Errno 28] No space left on device: '/w/x'",
        "ERROR: Could not install packages due to an OSError: [Errno 122] Disk quota exceeded",
        "sqlite3.OperationalError: database or disk is full",
        "fatal: sha1 file 'src/.git/index.lock' write error. Out of diskspace",
        "error: no space left while fetching third_party/inner",
    ],
)
def test_a_full_disk(line: str) -> None:
    error = explain_failure(STEP, result("building", line, "ninja: build stopped."), LOG, None)
    assert isinstance(error, NoSpaceError)
    assert error.why == line
    assert error.log == LOG


@pytest.mark.parametrize(
    "line",
    [
        "g++: fatal error: Killed signal terminated program cc1plus",
        "c++: internal compiler error: Killed (program cc1plus)",
        "clang++: error: unable to execute command: Killed",
        "icpx: error: unable to execute command: Killed",
        "collect2: fatal error: ld terminated with signal 9 [Killed]",
        "Killed",
        "build.sh: line 3: 12345 Killed                  ./prog",
        "make[1]: *** [Makefile:10: foo.o] Killed",
        "cc1plus: out of memory allocating 65536 bytes after a total of 12345 bytes",
        "virtual memory exhausted: Cannot allocate memory",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "LLVM ERROR: out of memory",
    ],
)
def test_out_of_memory(line: str) -> None:
    error = explain_failure(STEP, result("building", line, "ninja: build stopped."), LOG, None)
    assert isinstance(error, OutOfMemoryError)
    assert error.why == line
    assert "--jobs" in error.fix
    assert error.evidence["peak_tree_bytes"] == 3 << 30


@pytest.mark.parametrize("returncode", [-signal.SIGKILL, 128 + signal.SIGKILL])
def test_a_command_that_sigkill_ended_was_out_of_memory(returncode: int) -> None:
    error = explain_failure(STEP, result("[3/10] x.o", returncode=returncode), LOG, None)
    assert isinstance(error, OutOfMemoryError)


KILLED = "g++: fatal error: Killed signal terminated program cc1plus"


@pytest.mark.parametrize(
    ("line", "kills", "kind"),
    [
        (KILLED, 0, BuildError),
        (KILLED, 1, OutOfMemoryError),
        (KILLED, None, OutOfMemoryError),
        ("LLVM ERROR: out of memory", 0, OutOfMemoryError),
        ("[3/10] x.o", 0, BuildError),
        ("[3/10] x.o", 2, OutOfMemoryError),
    ],
)
def test_a_compiler_that_a_person_killed_was_not_out_of_memory(
    line: str, kills: int | None, kind: type[BuildError]
) -> None:
    ended = replace(result(line, returncode=-signal.SIGKILL), oom_kills=kills)
    error = explain_failure(STEP, ended, LOG, None)
    assert type(error) is kind
    if kind is BuildError:
        assert "killed" in error.what
        assert "batch system" in error.why


def test_the_kernels_count_of_kills_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vmstat = tmp_path / "vmstat"
    monkeypatch.setattr(process, "_VMSTAT", vmstat)
    assert process.oom_kills() is None
    vmstat.write_text("pgfault 1\noom_kill 7\ndrop_pagecache 0\n")
    assert process.oom_kills() == 7


def test_a_command_that_we_killed_at_its_deadline_was_not_out_of_memory() -> None:
    error = explain_failure(STEP, result(returncode=-signal.SIGKILL, timed_out=True), LOG, None)
    assert type(error) is BuildError
    assert "timed out" in error.why


def test_a_plain_failure_names_program_status_and_first_error() -> None:
    tail = ("[1/9] a.o", "a.cpp:3:1: error: unknown type name 'foo'", "2 errors", "ninja: build stopped.")
    error = explain_failure(STEP, result(*tail, returncode=2), LOG, None)
    assert type(error) is BuildError
    assert error.what == "ops wheel failed"
    assert error.why == "'ninja' exited with code 2: a.cpp:3:1: error: unknown type name 'foo'"
    assert error.log == LOG


def test_the_step_reads_its_own_tool() -> None:
    seen: list[Sequence[str]] = []

    def explain(lines: Sequence[str]) -> XpuBuildError | None:
        seen.append(lines)
        return NoXpuError("USE_XPU is OFF") if "USE_XPU : OFF" in lines else None

    step = Step(id="torch", title="torch", explain=explain)
    error = explain_failure(step, result("USE_XPU : OFF"), LOG, None)
    assert isinstance(error, NoXpuError)
    assert error.log == LOG
    assert type(explain_failure(step, result("other"), LOG, None)) is BuildError
    assert isinstance(explain_failure(step, result("USE_XPU : OFF", "Killed"), LOG, None), OutOfMemoryError)
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["a", "x.cpp:1: error: no", "y.cpp:1: error: later"], "x.cpp:1: error: no"),
        (["CMake Error at CMakeLists.txt:3 (x):", "  no MKL"], "CMake Error at CMakeLists.txt:3 (x):"),
        (["FAILED: a.o", "c++ -c a.cpp", "a.cpp:1: fatal error: no.h: No such file"], "FAILED: a.o"),
        (["ok", "ModuleNotFoundError: No module named 'x'"], "ModuleNotFoundError: No module named 'x'"),
        (["  ld: undefined reference to `f'"], "ld: undefined reference to `f'"),
        (["just", "words", "", "  "], "words"),
        ([], ""),
    ],
)
def test_the_first_error_line(lines: list[str], wanted: str) -> None:
    assert first_error_line(lines) == wanted


@pytest.mark.parametrize("kind", EXIT_CODES.values())
def test_an_error_survives_the_way_from_a_child(kind: type[XpuBuildError], tmp_path: Path) -> None:
    error = kind(
        "what \u00fc",
        why="why",
        fix="fix",
        commands=["a b"],
        log=Path("/l o/g"),
        evidence={"n": [1, {"k": None}]},
    )
    path = tmp_path / "error.json"
    path.write_text(json.dumps(error.to_json()), "utf-8")
    again = read_child_error(path, Redactor())
    assert again is not None
    assert type(again) is kind
    assert again.to_json() == error.to_json()


@pytest.mark.parametrize("text", [None, "", "{", "[]", '"text"', '{"code": "fet'])
def test_a_torn_or_missing_error_file_is_none(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    if text is not None:
        path.write_text(text)
    assert read_child_error(path, Redactor()) is None


def test_the_error_of_a_child_loses_its_secrets(tmp_path: Path) -> None:
    secret = 'p"s\\w\u00f6rd-1234'
    error = FetchError(
        f"cannot fetch https://u:{secret}@h/x",
        why=f"said {secret}",
        commands=[f"curl {secret}"],
        evidence={"argv": ["git", secret], "deep": {"a": [{"b": secret}]}, "count": 3},
    )
    path = tmp_path / "error.json"
    path.write_text(json.dumps(error.to_json()), "utf-8")
    again = read_child_error(path, Redactor([secret]))
    assert again is not None
    assert secret not in str(again.to_json())
    assert again.what == "cannot fetch https://****@h/x"
    assert again.evidence == {"argv": ["git", "****"], "deep": {"a": [{"b": "****"}]}, "count": 3}


# ---- From bytes to lines: cuts, encodings, secrets, wherever the reads happen to end


def read(*chunks: bytes, redact: Redactor | None = None) -> list[str]:
    heard: list[str] = []
    log = io.BytesIO()
    reader = LineReader(log, heard.append, redact or Redactor())
    for chunk in chunks:
        reader.feed(chunk)
    reader.finish()
    assert log.getvalue().decode("utf-8") == "".join(f"{line}\n" for line in heard)
    assert list(reader.tail) == heard[-200:]
    return heard


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\ntwo", ["one", "two"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b" 1%\r 2%\r 3%\n", [" 1%", " 2%", " 3%"]),
        (b"\n\n", ["", ""]),
        (b"", []),
        ("gr\u00fcn \u6f22\n".encode(), ["gr\u00fcn \u6f22"]),
        (b"bad \xff\xfe byte\n", ["bad \ufffd\ufffd byte"]),
        (b"cut \xe6\xbc", ["cut \ufffd"]),
        (b"\x00nul\n", ["\x00nul"]),
    ],
)
def test_lines(data: bytes, wanted: list[str]) -> None:
    assert read(data) == wanted


pieces = st.lists(
    st.sampled_from([b"a", b"\r", b"\n", b"\r\n", "\u00e9".encode(), "\u6f22".encode(), b"\xff", b"\xe6"]),
    max_size=30,
)


@settings(max_examples=500, deadline=None)
@given(pieces, st.data())
def test_where_a_read_ends_changes_nothing(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(*chunks) == read(whole)


def test_a_line_without_end_is_passed_on_in_pieces() -> None:
    heard: list[str] = []
    reader = LineReader(None, heard.append, Redactor())
    for _ in range(160):
        reader.feed(b"x" * 65536)
    assert heard, "nothing was told of 10 MB"
    reader.finish()
    assert "".join(heard) == "x" * (160 * 65536)
    assert max(map(len, heard)) < 200_000


@pytest.mark.parametrize("before", [60, 61440, 65530, 131072])
@pytest.mark.parametrize("chunk", [4096, 65536])
def test_no_cut_goes_through_a_secret(before: int, chunk: int) -> None:
    secret = "s3cr3t-0123456789-t0ken"
    data = b"x" * before + f" https://user:{secret}@host/ {secret} ".encode() + b"y" * 200_000
    heard = read(
        *(data[at : at + chunk] for at in range(0, len(data), chunk)),
        redact=Redactor([secret]),
    )
    text = "".join(heard)
    assert text == "x" * before + " https://****@host/ **** " + "y" * 200_000
    assert len(heard) > 1


def test_counted_bytes_reach_the_listener_and_not_the_log() -> None:
    heard: list[str] = []
    log = io.BytesIO()
    reader = LineReader(log, heard.append, Redactor())
    reader.feed(b"Downloading torch\nProgress 12 of 345\nProgress 345 of 345\nProgress is good\n")
    assert heard == ["Downloading torch", "Progress 12 of 345", "Progress 345 of 345", "Progress is good"]
    assert log.getvalue() == b"Downloading torch\nProgress is good\n"
    assert list(reader.tail) == ["Downloading torch", "Progress is good"]

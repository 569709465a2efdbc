"""Programs that checks start: how they ended is told apart, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xpubuild.errors import UsageError
from xpubuild.verify import baseline
from xpubuild.verify.child import Deadline
from xpubuild.verify.suite import aot_child, registry
from xpubuild.verify.suite.backends import BACKENDS
from xpubuild.verify.suite.check_runtime_aot import no_jit
from xpubuild.verify.suite.children import Ended, Talking, run_beside
from xpubuild.verify.suite.context import CheckFailedError, CheckSkippedError, SuiteContext
from xpubuild.verify.suite.hardware import memory_of
from xpubuild.verify.suite.peaks import PEAKS, find


def program(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_program_has_its_environment_folder_and_both_streams(tmp_path: Path) -> None:
    (tmp_path / "where").mkdir()
    code = (
        "import os, sys; print(os.environ['ADDED'], os.getcwd(), flush=True); print('err', file=sys.stderr)"
    )
    where = {"folder": tmp_path / "a", "cwd": tmp_path / "where"}
    (ended,) = run_beside([program(code)], deadline_s=30, env={"ADDED": "yes"}, **where)
    assert ended.ok
    assert ended.output.split() == ["yes", os.path.realpath(tmp_path / "where"), "err"]
    assert not list((tmp_path / "a").iterdir())


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('no such model'); raise SystemExit(3)", "the script exited with code 3: no such model"),
        ("import os; os.abort()", "the script was killed by SIGABRT"),
        ("import ctypes; ctypes.string_at(0)", "the script was killed by SIGSEGV"),
    ],
)
def test_failures_are_told_apart(tmp_path: Path, code: str, said: str) -> None:
    (ended,) = run_beside([program(code)], deadline_s=30, folder=tmp_path)
    assert (ended.ok, ended.describe("the script")) == (False, said)
    assert Ended(-250, timed_out=False, output="").describe("it") == "it was killed by signal 250"


def test_what_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    child = "import time; time.sleep(600)"
    code = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "print(p.pid, flush=True)\n"
        "time.sleep(600)"
    )
    (ended,) = run_beside([program(code)], deadline_s=3, folder=tmp_path)
    assert ended.timed_out
    assert ended.describe("it").startswith("it timed out")
    grandchild = Path("/proc") / ended.output.split()[0]
    for _ in range(100):
        if not grandchild.exists() or "Z" in grandchild.joinpath("stat").read_text().rpartition(")")[2][:3]:
            return
        time.sleep(0.05)
    pytest.fail("a process of the program is still there")


@pytest.mark.parametrize("first", [True, False])
def test_one_that_fails_ends_the_others(tmp_path: Path, first: bool) -> None:
    programs = [program("raise SystemExit(2)"), program("import time; time.sleep(600)")]
    start = time.monotonic()
    ended = run_beside(programs if first else programs[::-1], deadline_s=120, folder=tmp_path)
    assert time.monotonic() - start < 60
    assert sorted(end.status for end in ended) == [-9, 2]
    assert not any(end.timed_out for end in ended)


@pytest.mark.parametrize("group", [True, False])
def test_a_program_that_talks(tmp_path: Path, *, group: bool) -> None:
    code = (
        "import os, sys; print(dict(os.environ).get('A'), os.getpgrp() == os.getpid(), flush=True);"
        " print(sys.stdin.readline(), file=sys.stderr); sys.exit(3)"
    )
    talking = Talking([sys.executable, "-c", code], {"A": "b"}, log=tmp_path / "log", group=group)
    assert talking.line(20.0) == f"b {group}\n".encode()
    assert talking.line(0.01) is None
    talking.send(b"a line")
    assert talking.line(20.0) == b""
    assert talking.end(20.0) == 3
    assert (tmp_path / "log").read_text() == "a line\n\n"
    silent = Talking([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ), group=group)
    assert silent.end() == -signal.SIGKILL


# ---- What checks say about a device that others use, or that is far below its peak. The device is a stand-in


GIB = 2**30


class OutOfMemoryError(RuntimeError):
    """Plays the error of torch with the same name."""


def device(*free: float, reserved: float = 0.0, total: float = 80) -> Any:
    """Return the context of a device whose free memory (GiB) is ``free``, one figure a question."""
    figures = [int(value * GIB) for value in free]

    def answer() -> tuple[int, int]:
        return (figures.pop(0) if len(figures) > 1 else figures[0]), int(total * GIB)

    module = SimpleNamespace(mem_get_info=answer, memory_reserved=lambda: int(reserved * GIB))
    warnings: list[str] = []
    metrics: dict[str, Any] = {}
    return SimpleNamespace(
        backend=SimpleNamespace(name="cuda"), module=module,
        torch=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        warnings=warnings, warn=warnings.append, metrics=metrics, metric=metrics.__setitem__,
    )  # fmt: skip


def test_memory_that_is_not_there_is_a_skip_with_the_figures() -> None:
    with pytest.raises(CheckSkippedError) as caught, memory_of(device(3.5), 9 * GIB):
        pass
    assert "3.5 GiB free, but this needs 9.0 GiB" in str(caught.value)


def test_memory_that_another_process_takes_meanwhile_is_a_skip() -> None:
    with pytest.raises(CheckSkippedError), memory_of(device(70, 2, reserved=4), 9 * GIB):
        raise OutOfMemoryError


def test_an_allocator_that_refuses_free_memory_is_a_failure() -> None:
    with pytest.raises(OutOfMemoryError), memory_of(device(70), 9 * GIB):
        raise OutOfMemoryError
    with pytest.raises(RuntimeError, match="other"), memory_of(device(70, 2), 9 * GIB):
        raise RuntimeError("other")


@pytest.mark.parametrize(
    ("speed", "warned", "causes"), [(60.0, False, False), (30.0, True, False), (9.0, True, True)]
)
def test_far_below_the_peak_causes_are_named(speed: float, warned: bool, causes: bool) -> None:
    registry.discover()  # in its order
    from xpubuild.verify.suite import check_speed

    context = device(50)
    check_speed._against(context, "bfloat16_tflops", speed, 100.0)
    assert context.metrics["bfloat16_tflops_of_peak"] == speed / 100
    assert len(context.warnings) == warned
    text = " ".join(context.warnings)
    assert ("ZE_AFFINITY_MASK" in text) == causes


# ---- Speeds: what a metric's name says, the table of peaks, and baselines


@pytest.mark.parametrize(
    ("engines", "tiles", "bfloat16"),
    [(512, 1, 419.4), (1024, 2, 838.8)],
)
def test_a_max_1550_is_one_tile_in_flat_and_two_in_composite(
    engines: int, tiles: int, bfloat16: float
) -> None:
    peak, number = find("Intel(R) Data Center GPU Max 1550", engines)
    assert number == tiles
    assert peak.tflops["bfloat16"] * number == pytest.approx(bfloat16)


def test_peaks_of_the_max_series_follow_from_units_and_clock() -> None:
    for name, clock in (("1550", 1.6), ("1100", 1.55)):
        (peak,) = [peak for peak in PEAKS if name in peak.name]
        for kind, per_clock in (("float32", 32), ("tf32", 256), ("bfloat16", 512), ("int8", 1024)):
            assert peak.tflops[kind] == pytest.approx(peak.engines * per_clock * clock / 1000, rel=2e-3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file or directory"),
        ("{", "it is not valid JSON"),
        ('{"schema": "xpubuild.verify/1"}', "its schema is not xpubuild.verify-baseline/1"),
        (json.dumps({"schema": baseline.SCHEMA, "device": "d", "torch": "t"}), "it has an invalid part"),
        (
            json.dumps({"schema": baseline.SCHEMA, "device": "d", "torch": "t", "speeds": {"a": {"b": "c"}}}),
            "it has an invalid part",
        ),
    ],
)
def test_what_is_no_baseline_is_a_usage_error(tmp_path: Path, text: str | None, why: str) -> None:
    path = tmp_path / "base.json"
    if text is not None:
        path.write_text(text, "utf-8")
    with pytest.raises(UsageError) as caught:
        baseline.read(path)
    assert why in caught.value.why
    assert "--update-baseline" in caught.value.fix


# ---- A check's deadline counts the time in which it could run, and ends one that does not end


class Machine:
    """A clock, and how long a process has waited for a processor."""

    def __init__(self) -> None:
        self.now, self.waited = 100.0, {7: 40.0}

    def deadline(self, seconds: float) -> Deadline:
        made = Deadline(None, lambda: self.now, lambda process: self.waited.get(process, 0.0))
        made.extend(seconds, 7)
        return made

    def passes(self, seconds: float, waiting: float) -> None:
        self.now += seconds
        self.waited[7] += waiting


@pytest.mark.parametrize(
    "steps",
    [
        [(59.9, 0, False), (0.1, 0, True)],
        # What others were given does not count,
        [(200, 150, False), (9.9, 0, False), (0.1, 0, True)],
        # and there is an end to waiting.
        [(599, 599, False), (1, 1, True)],
    ],
)
def test_a_check_is_ended_at_its_deadline(steps: list[tuple[float, float, bool]]) -> None:
    machine = Machine()
    deadline = machine.deadline(60)
    for seconds, waiting, over in steps:
        machine.passes(seconds, waiting)
        assert bool(deadline) is over
    assert deadline.expired


# ---- ``runtime.no_jit``: which files of the driver's cache count, and the whole check with a fake torch
# The folders are laid out as programmers-guide/COMPILER_CACHE.md of intel/compute-runtime says. No Max has
# run it yet.


#: A fake torch: each operation writes what the driver would, had it to compile that kernel.
FAKE_TORCH = """
import os
from pathlib import Path

float32 = int32 = None
LATE = {late}
cache = Path(os.environ["NEO_CACHE_DIR"])


class Tensor:
    def __getattr__(self, name):
        return lambda *a, **k: run(name)

    def __add__(self, other):
        return run("add")

    def __getitem__(self, key):
        return run("index")

    def __mod__(self, key):
        return self


def run(name):
    (cache / "config.file").write_bytes(bytes(8))
    if name in LATE:
        (cache / ("1ad86968de010f16-" + name + ".l0_cache")).write_bytes(bytes(64))
    return Tensor()


def __getattr__(name):
    return (lambda *a, **k: run(name)) if not name.startswith("__") else None


class xpu:
    synchronize = staticmethod(lambda: None)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def asked(
    site: Path, *late: str, flags: str = "pvc", name: str = "xpu", broken: bool = False
) -> SuiteContext:
    text = FAKE_TORCH.replace("{late}", repr(set(late)))
    (site / "torch.py").write_text("raise ImportError" if broken else text)

    class Context(SuiteContext):
        torch = SimpleNamespace(_C=SimpleNamespace(_xpu_getArchFlags=lambda: flags))
        device = f"{name}:0"

    context = Context(BACKENDS[name], frozenset())
    no_jit(context)
    return context


def test_only_what_the_driver_compiled_counts(tmp_path: Path) -> None:
    (tmp_path / "config.file").touch()
    assert aot_child.compiled(tmp_path) == set()
    (tmp_path / "0").mkdir()
    for name in ("96583765687affab.l0_cache", "0/e3562db9fa7bbc9e.cl_cache", "0/notes.txt"):
        (tmp_path / name).touch()
    assert aot_child.compiled(tmp_path) == {"96583765687affab.l0_cache", "e3562db9fa7bbc9e.cl_cache"}


def test_kernels_with_native_code_leave_the_cache_empty(site: Path) -> None:
    context = asked(site)
    assert context.metrics["compiled"] == 0
    assert context.metrics["kernels"] >= 8


def test_a_kernel_that_was_compiled_is_named(site: Path) -> None:
    with pytest.raises(CheckFailedError, match="compiled 2 programs, for sum, softmax: these libraries"):
        asked(site, "sum", "softmax")


def test_a_process_that_fails_is_no_success(site: Path) -> None:
    with pytest.raises(CheckFailedError, match="the process that runs the kernels exited with code 1"):
        asked(site, "cat", broken=True)


def test_a_torch_without_native_code_and_other_devices_are_skipped(site: Path) -> None:
    with pytest.raises(CheckSkippedError, match="without AOT targets"):
        asked(site, flags="")
    with pytest.raises(CheckSkippedError, match="cpu"):
        asked(site, name="cpu")

"""The checks of streams, events and device memory against a simulated device, whole and broken.

A CPU has none of these. The device here is a stand-in (simulated_streams.py); scripts/verify-mutations.py
does the same on a real one.
"""

from __future__ import annotations

from pathlib import Path

from integration import simulated_streams
from integration.torch_env import TorchEnv
from integration.verify_support import Target, bad

from xpubuild.resources import suite_dir

#: Not runtime.event_timing: the stand-in has no clock of its own, and runs nothing while the host is busy.
SIMULATED = (
    "runtime.stream_*", "runtime.guard_stream", "runtime.allocator_*",
    "runtime.copy_pinned", "runtime.copy_async", "aten.no_fallback",
)  # fmt: skip


def test_a_good_simulated_device_passes(target: Target, warm: Path) -> None:
    """The stand-in itself is no reason for any of the failures in the mutations."""
    report = target.verify(*SIMULATED, suite="full", mutation=simulated_streams.CODE, python=warm)
    assert bad(report) == {}
    assert [check.id for check in report.checks if check.status == "skip"] == []


DEVICE_MEMORY = """\
import torch
{code}
sys.path.insert(0, {suite!r})
import importlib.util
from pathlib import Path
run = importlib.util.spec_from_file_location("run", Path({suite!r}) / "run.py")
module = importlib.util.module_from_spec(run)
run.loader.exec_module(module)
module._load_suite()
from xpubuild_verify_suite.backends import BACKENDS
from xpubuild_verify_suite.context import SuiteContext
from xpubuild_verify_suite.placement import on_device
for field in ("streams", "allocator_statistics"):
    object.__setattr__(BACKENDS["cpu"], field, True)
context = SuiteContext(BACKENDS["cpu"], frozenset())
for elements in (1000, 10):
    with on_device(context, 4 * 1000):
        torch.ones(elements) + 1
    print(context.metrics)
"""


def test_work_is_seen_by_allocator_and_profiler_and_what_takes_no_memory_is_a_failure(
    torch_env: TorchEnv, warm: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(DEVICE_MEMORY.format(code=simulated_streams.CODE, suite=str(suite_dir())), "utf-8")
    done = torch_env.run(warm, program)
    output = done.stdout + done.stderr
    assert done.returncode == 1
    assert output.count("'device_evidence': ['allocator', 'profiler']") == 1, output
    assert "the device's allocator provided" in output
    assert "it did not run there" in output

"""Targets that are no working torch, told apart before anything else is; a device that is simulated."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from integration import simulated_streams
from integration.torch_env import TorchEnv
from integration.verify_support import Target, bad, by_id
from support.files import lay, script

from xpubuild.engine.environment import base_environment
from xpubuild.errors import ToolchainError
from xpubuild.resources import suite_dir
from xpubuild.verify.harness import run_suite
from xpubuild.verify.model import VerifyReport


def verify(python: Path, work: Path, *only: str) -> VerifyReport:
    return run_suite(python, device="cpu", env=base_environment(), work=work, only=only)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("exit 0", "it is not a working Python:"),
        ("echo 'Fatal Python error: no encodings' >&2; exit 1", "Fatal Python error: no encodings"),
        ("""printf '\\036{"event": "hello", "version": [3, 8, 1]}\\n'""", "it is Python 3.8.1"),
    ],
)
def test_what_is_no_usable_python_is_a_toolchain_error(tmp_path: Path, text: str, why: str) -> None:
    python = script(tmp_path / "python", text)
    with pytest.raises(ToolchainError) as caught:
        verify(python, tmp_path / "w")
    assert caught.value.what == f"{python} cannot run the checks"
    assert why in caught.value.why
    assert "Python 3.9 or newer" in caught.value.fix


def test_python_without_torch(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare env"], check=True)
    report = verify(tmp_path / "bare env" / "bin" / "python", tmp_path / "w")
    assert bad(report) == {"import.torch": "fail"}
    assert by_id(report)["import.torch"].detail == "ModuleNotFoundError: No module named 'torch'"
    others = report.checks[1:]
    assert {check.status for check in others} == {"skip"}
    assert {check.detail for check in others} == {"needs import.torch, which failed"}
    assert report.to_json()["torch"] == {}


MESSAGE = "libsycl.so.8: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("code", "status", "detail"),
    [
        (f"raise ImportError({MESSAGE!r})", "fail", f"^ImportError: {MESSAGE}$"),
        ("import ctypes\nctypes.string_at(0)", "crash", "SIGSEGV"),
    ],
)
def test_torch_that_does_not_load(target: Target, code: str, status: str, detail: str) -> None:
    place = lay(target.work / "broken", {"torch/__init__.py": f"{code}\n"})
    report = target.verify("import", "aten", path=[place])
    assert bad(report) == {"import.torch": status}
    assert re.search(detail, by_id(report)["import.torch"].detail)


@pytest.mark.parametrize("device", ["xpu", "cuda"])
def test_asked_for_a_device_that_torch_was_built_without(target: Target, warm: Path, device: str) -> None:
    report = target.verify(device=device, python=warm)
    assert bad(report) == {"device.availability": "fail"}
    expected = f"this torch (2.13.0+cpu) was built without {device.upper()}"
    assert by_id(report)["device.availability"].detail == expected
    assert by_id(report)["aten.sort"].status == "skip"
    assert report.device == {"type": device}


# ---- The checks of streams, events and device memory against a simulated device, whole and broken


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

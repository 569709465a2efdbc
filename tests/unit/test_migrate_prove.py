"""``migrate --prove``: what a program does in a Python with a fake torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.cli import Xpubuild

CUDA = """
__all__ = ["is_available", "synchronize"]
class amp:
    class autocast: pass
    class GradScaler: pass
class Stream: pass
class Event: pass
def is_available(): return False
def synchronize(): raise AssertionError("not compiled with CUDA")
"""
XPU = """
def is_available(): return __DEVICE__
def synchronize(): pass
def max_memory_allocated(): return 1024
"""
TORCH = """
__version__ = "2.99.0"
import types, warnings
from . import cuda, xpu
class Tensor:
    def cuda(self): return self
class nn:
    class Module: pass
class profiler:
    class ProfilerActivity: pass
class autograd:
    class profiler:
        class profile:
            def __enter__(self): return self
def device(name): return name
def fall_back(): warnings.warn("aten::x on the XPU backend is falling back to run on the CPU.")
def own(): return cuda.is_available()
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(TORCH)
    (tmp_path / "torch" / "cuda.py").write_text(CUDA)
    (tmp_path / "torch" / "xpu.py").write_text(XPU.replace("__DEVICE__", "True"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "train.py"


def prove(xpubuild: Xpubuild, program: Path) -> tuple[int, dict[str, object]]:
    options = ("migrate", "--prove", "--python", sys.executable, "--json")
    result = xpubuild(*options, "--", "python", str(program))
    return result.status, json.loads(result.out)


def test_a_program_that_runs_on_the_device_is_proved(xpubuild: Xpubuild, program: Path) -> None:
    program.write_text("import torch\ntorch.own()\n")
    status, proof = prove(xpubuild, program)
    assert status == 0
    (process,) = proof["processes"]
    assert (process["torch"], process["device"], process["memory_bytes"]) == ("2.99.0", "xpu", 1024)
    assert (process["trips"], process["fallbacks"], proof["stand_in"]) == ([], [], False)


def test_lines_that_ask_for_cuda_and_operators_on_the_cpu_are_listed(
    xpubuild: Xpubuild, program: Path
) -> None:
    program.write_text("import torch\nfor _ in 'ab':\n    torch.cuda.is_available()\ntorch.fall_back()\n")
    status, proof = prove(xpubuild, program)
    assert status == 80
    (process,) = proof["processes"]
    assert process["trips"] == [
        {"call": "torch.cuda.is_available", "path": str(program), "line": 3, "count": 2}
    ]
    assert process["fallbacks"] == ["aten::x on the XPU backend is falling back to run on the CPU."]


def test_a_program_that_fails_is_reported_with_its_error(xpubuild: Xpubuild, program: Path) -> None:
    program.write_text("import torch\ntorch.cuda.synchronize()\n")
    status, proof = prove(xpubuild, program)
    assert (status, proof["status"]) == (80, 1)
    (process,) = proof["processes"]
    assert process["error"] == "AssertionError: not compiled with CUDA"


def test_a_program_without_torch_and_no_command_prove_nothing(xpubuild: Xpubuild, program: Path) -> None:
    program.write_text("print(1)\n")
    assert prove(xpubuild, program)[0] == 80
    assert xpubuild("migrate", "--prove", "--python", sys.executable).status == 2
    assert xpubuild("migrate", ".", "--", "python").status == 2

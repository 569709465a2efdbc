"""``migrate --prove``: what a program does in a Python with a fake torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.cli import Xpubuild
from support.migrating import left, line, migrated

from xpubuild.errors import ToolchainError, UnsatisfiableError
from xpubuild.migrate import names
from xpubuild.migrate.rules import rules_for, table

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


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        (
            "torch.own()\n", 0,
            {"torch": "2.99.0", "device": "xpu", "memory_bytes": 1024, "trips": [], "fallbacks": []},
        ),
        (
            "for _ in 'ab':\n    torch.cuda.is_available()\ntorch.fall_back()\n", 80,
            {
                "trips": [{"call": "torch.cuda.is_available", "path": "train.py", "line": 3, "count": 2}],
                "fallbacks": ["aten::x on the XPU backend is falling back to run on the CPU."],
            },
        ),
        ("torch.cuda.synchronize()\n", 80, {"error": "AssertionError: not compiled with CUDA"}),
    ],
)  # fmt: skip
def test_what_a_program_did_on_the_device_is_told(
    xpubuild: Xpubuild, program: Path, code: str, status: int, said: dict[str, object]
) -> None:
    """It asks for CUDA, computes on the CPU, or fails."""
    program.write_text(f"import torch\n{code}")
    ended, proof = prove(xpubuild, program)
    assert (ended, proof["stand_in"], proof["status"]) == (status, False, int("error" in said))
    (process,) = proof["processes"]
    for trip in process["trips"]:
        assert trip["path"] == str(program)
        trip["path"] = program.name
    assert {name: process[name] for name in said} == said


def test_a_program_without_torch_and_no_command_prove_nothing(xpubuild: Xpubuild, program: Path) -> None:
    program.write_text("print(1)\n")
    assert prove(xpubuild, program)[0] == 80
    assert xpubuild("migrate", "--prove", "--python", sys.executable).status == 2
    assert xpubuild("migrate", ".", "--", "python").status == 2


# ---- torch.cuda's runtime: memory, streams, RNG, distributed, profiler; by release


@pytest.mark.parametrize(
    "head", ["from torch import cuda", "import torch.cuda as cuda", "from torch import cuda as cuda"]
)
def test_a_name_is_found_through_its_import_which_goes(head: str) -> None:
    assert migrated(f"import torch\n{head}\ncuda.synchronize()\n").text == (
        "import torch\ntorch.accelerator.synchronize()\n"
    )


def test_an_import_of_several_names_keeps_the_others_and_its_comment() -> None:
    code = "import torch\nfrom torch.cuda import Event, nvtx  # times\ne = Event()\nnvtx.mark('a')\n"
    after = migrated(code, "xpu")
    assert "from torch.cuda import nvtx  # times\ne = torch.xpu.Event()\n" in after.text
    assert [item.reason.id for item in after.found] == ["torch.cuda.nvtx"]


def test_only_a_note_needs_no_change() -> None:
    (found,) = migrated("torch.backends.cuda.matmul.allow_tf32 = True\n").found
    assert found.reason.level == "note"


def test_a_call_is_written_from_the_release_on_that_has_it() -> None:
    code = "import torch\nfree = torch.cuda.mem_get_info()\n"
    assert line("free = torch.cuda.mem_get_info()", "xpu", "2.6") == "free = torch.xpu.mem_get_info()"
    assert left(code, "xpu", "2.5") == ["no-counterpart"]
    (found,) = migrated(code, "xpu", "2.5").found
    assert found.reason.why.endswith("in torch 2.5; torch.xpu has it since torch 2.6.")


def test_a_torch_without_xccl_has_no_backend() -> None:
    assert left('import torch.distributed as dist\ndist.init_process_group("nccl")\n', "xpu", "2.7") == [
        "backend"
    ]


def test_a_torch_without_the_target_and_an_unknown_release_are_refused() -> None:
    with pytest.raises(UnsatisfiableError, match=r"torch 2\.5 has no torch\.accelerator"):
        rules_for("accelerator", "2.5", None)
    with pytest.raises(UnsatisfiableError, match="are not known"):
        rules_for("xpu", "1.9", None)


def test_the_names_are_read_from_the_files_of_an_installed_torch(tmp_path, monkeypatch) -> None:
    package = tmp_path / "torch"
    (package / "xpu").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (package / "version.py").write_text("__version__ = '2.99.0+here'\n")
    (package / "xpu" / "__init__.py").write_text("__all__ = ['synchronize']\ndef other(): pass\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    import sys

    version, has = names.of_interpreter(sys.executable)
    assert version == "2.99.0+here"
    assert has == {"torch.xpu", "torch.xpu.synchronize"}
    monkeypatch.setenv("PYTHONPATH", "")
    with pytest.raises(ToolchainError, match="has no torch"):
        names.of_interpreter(sys.executable)


def test_every_target_of_the_table_exists_in_the_newest_torch() -> None:
    has = names.of_release(names.releases()[-1])
    assert {*table()["accelerator"].values(), *table()["elsewhere"].values()} <= has
    assert {f"torch.xpu.{name}" for name in table()["renamed"].values()} <= has

"""``runtime.no_jit``: which files of the driver's cache count, and the whole check with a fake torch.

The folders are laid out as programmers-guide/COMPILER_CACHE.md of intel/compute-runtime says. No Max has
run it yet.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from xpubuild.verify.suite import aot_child
from xpubuild.verify.suite.backends import BACKENDS
from xpubuild.verify.suite.check_runtime_aot import no_jit
from xpubuild.verify.suite.context import CheckFailedError, CheckSkippedError, SuiteContext

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

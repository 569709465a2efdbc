"""What is proved of a torch that was built for XPU, on real ELF files and on a real torch that was not."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration.torch_env import TORCH, TorchEnv
from support.artifacts import compile_shared, pack

from xpubuild.artifacts.xpu_proofs import XpuInstalledProof, XpuWheelProof
from xpubuild.errors import NoXpuError

# As torch-xpu-ops declares them: https://github.com/intel/torch-xpu-ops/blob/release/2.8/src/ATen/native/xpu/sycl/AbsKernel.h
KERNEL = "namespace at::native::xpu { void abs_kernel(int) {} void add_kernel(int) {} }"
# PyTorch's own part: https://github.com/pytorch/pytorch/blob/v2.6.0/aten/src/ATen/native/mkldnn/xpu/Blas.cpp
NO_KERNEL = "namespace at::native::xpu { int addmm_out(int x) { return x; } }"


def library(folder: Path, name: str, source: str) -> bytes:
    return compile_shared(folder / name, source).read_bytes()


def wheel(folder: Path, **libraries: str) -> XpuWheelProof:
    """Pack a wheel of torch with libraries of these sources."""
    files = {
        f"torch/lib/{name}.so": library(folder / "objects", f"{name}.so", text)
        for name, text in libraries.items()
    }
    pack(folder / "stage", "torch", "2.8.0", {"torch/__init__.py": b"", **files})
    return XpuWheelProof(str(folder / "stage"))


def test_kernels_inside_the_library_or_beside_it(tmp_path: Path) -> None:
    inside = wheel(tmp_path / "2.13", libtorch_xpu=KERNEL, libtorch_cpu="int x;").check()
    assert inside == {"xpu_kernels": {"torch/lib/libtorch_xpu.so": 2}}
    beside = wheel(tmp_path / "2.8", libtorch_xpu=NO_KERNEL, libtorch_xpu_ops_sycl_kernels=KERNEL).check()
    assert sum(beside["xpu_kernels"].values()) == 2


def test_a_real_torch_for_the_cpu_is_refused(torch_env: TorchEnv) -> None:
    with pytest.raises(NoXpuError) as caught:
        XpuInstalledProof(str(torch_env.python), ("pvc",)).check()
    assert caught.value.exit_code == 53
    assert TORCH in caught.value.what
    assert "not compiled for XPU" in caught.value.what


def test_a_torch_that_cannot_be_imported_is_refused(torch_env: TorchEnv) -> None:
    proof = XpuInstalledProof(str(torch_env.python), env={"PYTHONSAFEPATH": "1", "PYTHONHOME": "/nowhere"})
    with pytest.raises(NoXpuError, match="cannot be imported"):
        proof.check()

"""What is proved of a torch that was built for XPU, on real ELF files and on a real torch that was not."""

from __future__ import annotations

import stat
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


def test_a_wheel_without_the_library_is_none(tmp_path: Path) -> None:
    with pytest.raises(NoXpuError, match=r"no libtorch_xpu\.so"):
        wheel(tmp_path, libtorch_cpu=KERNEL).check()


def test_a_library_without_kernels_is_none(tmp_path: Path) -> None:
    with pytest.raises(NoXpuError, match="no XPU kernels"):
        wheel(tmp_path, libtorch_xpu=NO_KERNEL, libtorch_xpu_ops_sycl_kernels="int x;").check()


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


def says(folder: Path, **said: object) -> str:
    """Return an interpreter that answers as a torch for XPU would; there is none to be had."""
    answer = {"version": "2.8.0", "compiled": True, "sycl": "20250101", "arch": ["pvc"], "file": "/x", **said}
    path = folder / "python"
    text = str(answer).replace("'", '"').replace("True", "true").replace("None", "null")
    path.write_text(f"#!/bin/sh\nprintf 'noise\\036%s' '{text}'\n", "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_what_was_asked_for_is_accepted(tmp_path: Path) -> None:
    evidence = XpuInstalledProof(says(tmp_path), ("pvc",), "2.8.0").check()
    assert evidence["torch"]["arch"] == ["pvc"]


def test_a_release_that_names_no_targets_is_believed(tmp_path: Path) -> None:
    XpuInstalledProof(says(tmp_path, arch=None), ("pvc",)).check()
    XpuInstalledProof(says(tmp_path, arch=[]), ("none",)).check()


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"arch": ["bmg"]}, "no kernels for pvc"),
        ({"arch": []}, "no kernels for pvc"),
        ({"version": "2.8.0+cpu"}, "is 2.8.0\\+cpu"),
        ({"version": "2.7.1"}, "is 2.7.1"),
        ({"compiled": None}, "not compiled for XPU"),
    ],
)
def test_something_else_is_refused(tmp_path: Path, said: dict[str, object], match: str) -> None:
    with pytest.raises(NoXpuError, match=match):
        XpuInstalledProof(says(tmp_path, **said), ("pvc",), "2.8.0").check()

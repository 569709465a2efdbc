"""The SYCL library of ops: built as the plan for XPU says, compiled ahead of time, loaded and run.

Intel's front end with a stand-in driver (support/sycl_compiler) takes the place of icpx, and a libc10_xpu
that is made here that of a torch with XPU; only its queue is needed. They run on Intel's OpenCL CPU device.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from integration.sycl_env import SYCL, must
from integration.torch_env import TorchEnv, install_wheel
from support.plan_files import plan_for
from support.shared import folder_of_run, once
from support.sycl_compiler.driver import install

from xpubuild.artifacts.step_proofs import WheelProof
from xpubuild.engine.environment import base_environment
from xpubuild.engine.execution import command_environment
from xpubuild.engine.model import Step
from xpubuild.errors import AuditError
from xpubuild.install.target import OneapiFacts
from xpubuild.resources import ops_project_dir

pytestmark = [pytest.mark.slow, pytest.mark.needs("ocloc")]

_MACROS = "#pragma once\n#define C10_XPU_BUILD_SHARED_LIBS\n"
#: Stands for the libc10_xpu of a torch with XPU: one queue, on whatever device there is.
_STREAMS = """
#include <c10/xpu/XPUStream.h>
static sycl::queue& one() { static sycl::queue queue; return queue; }
extern "C" void finish() { one().wait_and_throw(); }
namespace c10::xpu {
sycl::queue& XPUStream::queue() const { return one(); }
XPUStream getCurrentXPUStream(DeviceIndex) {
  return XPUStream(Stream(Stream::UNSAFE, Device(DeviceType::XPU, 0), 0));
}
}
"""
#: Runs the kernels on memory of the host, which the CPU device can use as it is, and compares.
_COMPARE = """
import ctypes, json
import torch
import xpubuild_ops
ops, keys = torch.ops.xpubuild_ops, torch._C.DispatchKeySet(torch._C.DispatchKey.XPU)
finish = ctypes.CDLL("libc10_xpu.so").finish
torch.manual_seed(21)
result = {}
for name in ("float32", "float64", "float16", "bfloat16"):
    kind = getattr(torch, name)
    base = torch.randn(66, 514).to(kind)
    worst = 0.0
    gate, up = base.chunk(2, dim=1)
    for g, u in ((gate, up), (gate.contiguous(), up.contiguous()), (gate.t(), up.t())):
        grad = torch.randn_like(g)
        ours = (ops.swiglu.default.redispatch(keys, g, u),
                *ops.swiglu_backward.default.redispatch(keys, grad, g, u))
        finish()  # launches do not wait, and only a torch with XPU would before it reads
        theirs = (ops.swiglu(g, u), *ops.swiglu_backward(grad, g, u))
        for a, b in zip(ours, theirs):
            assert a.dtype == kind and a.shape == b.shape
            worst = max(worst, float((a.double() - b.double()).abs().max() / b.double().abs().max()))
    result[name] = worst
print(json.dumps({"build_info": xpubuild_ops.build_info(), "worst": result}))
"""


@dataclass(frozen=True)
class Built:
    """What is made once: the toolkit, torch with its additions, the step that was run and the wheel."""

    sycl: Path
    torch: Path
    step: Step
    site: Path

    def run(self, env: TorchEnv, *argv: str | Path, **extra: str) -> subprocess.CompletedProcess[str]:
        """Run a program with both SYCL and ops in reach."""
        libraries = f"{self.sycl / 'lib'}:{self.torch / 'torch' / 'lib'}"
        # With its cache of compiled code, libsycl.so.9 reads a name from images without kernels, and crashes.
        return env.run(*argv, PYTHONPATH=f"{self.torch}:{self.site}", LD_LIBRARY_PATH=libraries,
                       OCL_ICD_FILENAMES=str(self.sycl / "lib" / "libintelocl.so"),
                       SYCL_CACHE_PERSISTENT="0", **extra)  # fmt: skip


def _links(real: Path, copy: Path, own: dict[str, str]) -> None:
    """Make a folder of links to what is in another one; folders on the way to files of ``own`` are real."""
    copy.mkdir(parents=True)
    for entry in real.iterdir():
        below = {k.partition("/")[2]: v for k, v in own.items() if k.partition("/")[0] == entry.name}
        if entry.is_dir() and below:
            _links(entry, copy / entry.name, below)
        else:
            (copy / entry.name).symlink_to(entry)
    for name, text in own.items():
        if "/" not in name and not (copy / name).exists():
            (copy / name).write_text(text)


def _make_torch(env: TorchEnv, sycl: Path, folder: Path) -> None:
    """Lay a torch out that has what a build with XPU would add, as far as ops needs it."""
    own = {"include/c10/xpu/impl/xpu_cmake_macros.h": _MACROS, "lib/c10_xpu.cpp": _STREAMS}
    _links(env.site / "torch", folder / "torch", own)
    include, lib = folder / "torch" / "include", folder / "torch" / "lib"
    must(("g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-w", "-DSYCL_DISABLE_FSYCL_SYCLHPP_WARNING",
           "-isystem", include, "-isystem", sycl / "include", "-isystem", sycl / "include" / "sycl",
           lib / "c10_xpu.cpp", "-o", lib / "libc10_xpu.so", f"-L{sycl / 'lib'}", "-lsycl"),
          env.environ)  # fmt: skip


def _step(workspace: Path, compiler: Path) -> Step:
    """Return the step of a plan for XPU that builds the wheel of ops."""
    oneapi = OneapiFacts(path_prefix=(str(compiler),), digest="0" * 64, compiler_version=SYCL)
    asked = {"workspace": str(workspace), "arch": ("pvc",), "with_": ("ops",)}
    plan = plan_for("2.13", oneapi="2025.3", facts={"oneapi": oneapi}, **asked)
    return next(step for step in plan.steps if step.id == "ops.wheel")


def _proof(step: Step, *search: Path) -> WheelProof:
    """Return the audit of the step, with the folders that this test has instead of the workspace's own."""
    proof = next(proof for proof in step.proofs if isinstance(proof, WheelProof))
    return replace(proof, search=tuple(map(str, search)))


@pytest.fixture(scope="module")
def built(torch_env: TorchEnv, sycl_env: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Run the step's own command in a workspace whose environment is the one of all tests."""
    root = folder_of_run(tmp_path_factory)
    torch = once(root, "torch-xpu", lambda folder: _make_torch(torch_env, sycl_env, folder))

    def make(workspace: Path) -> None:
        (workspace / "bin").mkdir(parents=True)
        (workspace / "env").symlink_to(torch_env.root)
        (workspace / "src").mkdir()
        shutil.copytree(ops_project_dir(), workspace / "src" / "ops")
        install(workspace / "bin", sycl_env)
        command = _step(workspace, workspace / "bin").commands[-1]
        env = command_environment(command, base_environment())
        # What is for the CPU as one unit: half of its time.
        must((*command.argv, "-Ccmake.define.CMAKE_UNITY_BUILD=ON"), {**env, "PYTHONPATH": str(torch)})
        (wheel,) = (workspace / "wheels" / ".stage-ops").glob("*.whl")
        install_wheel(torch_env, wheel, workspace / "site")

    workspace = once(root, "ops-xpu", make)
    return Built(sycl_env, torch, _step(workspace, workspace / "bin"), workspace / "site")


def test_the_wheel_passes_its_audit_for_the_targets_of_the_plan(built: Built) -> None:
    proof = _proof(built.step, built.torch / "torch" / "lib", built.sycl / "lib")
    assert proof.policy.device_targets == ("pvc",)
    objects = proof.check()["audit"]["objects"]
    code = {item["path"]: item["device_code"] for item in objects}
    assert code["xpubuild_ops/libxpubuild_ops.so"] is None
    device = code["xpubuild_ops/libxpubuild_ops_xpu.so"]
    # Forward and backward in four types, each an image of its own.
    assert (device["kernels"], device["spirv"]) == (8, 8)
    assert list(device["native"].values()) == [8]
    assert device["images"] >= 16


def test_the_same_wheel_fails_the_audit_for_another_gpu(built: Built) -> None:
    proof = _proof(built.step, built.torch / "torch" / "lib", built.sycl / "lib")
    other = replace(proof, policy=replace(proof.policy, device_targets=("pvc", "bmg")))
    with pytest.raises(AuditError, match="failed its audit") as caught:
        other.check()
    assert "native code for bmg for 0 of 8 kernels" in caught.value.why


def test_its_kernels_agree_with_those_of_the_cpu(built: Built, torch_env: TorchEnv) -> None:
    done = built.run(torch_env, torch_env.python, "-c", _COMPARE)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["build_info"]["xpu"] is True
    # Some roundings of each type: 2^-24, 2^-53, 2^-11 and 2^-8.
    limits = {"float32": 1e-6, "float64": 2e-15, "float16": 2e-3, "bfloat16": 1.6e-2}
    assert all(error <= limits[name] for name, error in said["worst"].items()), said["worst"]


def test_a_kernel_that_the_front_end_refuses_stops_the_build(sycl_env: Path, tmp_path: Path) -> None:
    """What no host compiler says: device code must not read a global variable, for instance."""
    source = tmp_path / "wrong.cpp"
    source.write_text(
        "#include <sycl/sycl.hpp>\nint counter = 0;\n"
        "struct K { int* r; void operator()() const { *r = counter; } };\n"
        "void run(sycl::queue& q, K k) { q.single_task(k); }\n"
    )
    program = install(tmp_path, sycl_env)
    done = subprocess.run([program, "-fsycl", "-c", source, "-o", tmp_path / "x.o"], capture_output=True,
                          text=True, check=False, timeout=300)  # fmt: skip
    assert done.returncode == 1
    assert "wrong.cpp:3:51: error: SYCL kernel cannot use a non-const global variable" in done.stderr

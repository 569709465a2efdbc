"""The stand-in for a GPU on Intel's real runtime: what its device says, values of kernels, refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from integration.sycl_env import must
from integration.torch_env import TorchEnv
from support.sycl_compiler.driver import install

from xpubuild.engine.environment import base_environment
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.resources import suite_dir
from xpubuild.verify.standin import MARK, Runtime, adapter, applied, environment, find_runtime, require_loads

pytestmark = pytest.mark.slow

#: Prints what the first GPU says, runs a kernel of each kind, and prints the numbers that came out.
_PROGRAM = r"""
#include <sycl/sycl.hpp>
#include <sycl/ext/oneapi/bfloat16.hpp>
#include <sycl/ext/oneapi/experimental/profiling_tag.hpp>
#include <cmath>
#include <cstdio>
namespace intel = sycl::ext::intel::info::device;
using bf16 = sycl::ext::oneapi::bfloat16;
constexpr int n = 2048, group = 256;
template <class T> class Axpy; class Local; class Sum; class Sub; class Count;

template <class T> void axpy(sycl::queue &q, const char *name) {
  T *x = sycl::malloc_shared<T>(n, q);
  for (int i = 0; i < n; i++) x[i] = T(i % 8);
  const sycl::range<1> all(n);
  q.parallel_for<Axpy<T>>(all, [=](sycl::id<1> i) { x[i] = T(T(2.0f) * x[i] + T(1.0f)); }).wait();
  double sum = 0;
  for (int i = 0; i < n; i++) sum += double(float(x[i]));
  std::printf("%s=%.0f\n", name, sum);
}

int main() {
  sycl::device d(sycl::gpu_selector_v);
  std::printf("devices=%zu\n", sycl::device::get_devices().size());
  std::printf("name=%s\n", d.get_info<sycl::info::device::name>().c_str());
  std::printf("level_zero=%d\n", d.get_backend() == sycl::backend::ext_oneapi_level_zero);
  std::printf("eus=%u\nid=%x\n", d.get_info<intel::gpu_eu_count>(), d.get_info<intel::device_id>());
  std::printf("group=%zu\n", d.get_info<sycl::info::device::max_work_group_size>());
  sycl::queue q(d, {sycl::property::queue::in_order(), sycl::property::queue::enable_profiling()});
  axpy<float>(q, "float"); axpy<double>(q, "double"); axpy<sycl::half>(q, "half"); axpy<bf16>(q, "bfloat16");
  axpy<int>(q, "int");
  float *a = sycl::malloc_shared<float>(n, q), *s = sycl::malloc_shared<float>(n / group, q);
  for (int i = 0; i < n; i++) a[i] = i % 4;
  q.submit([&](sycl::handler &h) {
    sycl::local_accessor<float, 1> l(group, h);
    h.parallel_for<Local>(sycl::nd_range<1>(n, group), [=](sycl::nd_item<1> it) {
      int i = it.get_local_id(0);
      l[i] = a[it.get_global_id(0)];
      sycl::group_barrier(it.get_group());
      for (int step = group / 2; step; step /= 2) {
        if (i < step) l[i] += l[i + step];
        sycl::group_barrier(it.get_group());
      }
      if (!i) s[it.get_group(0)] = l[0];
    });
  }).wait();
  std::printf("local=%.0f\n", s[3]);
  float *sum = sycl::malloc_shared<float>(1, q);
  *sum = 0;
  q.parallel_for<Sum>(sycl::nd_range<1>(n, group), sycl::reduction(sum, sycl::plus<float>()),
                      [=](sycl::nd_item<1> it, auto &all) { all += a[it.get_global_id(0)]; }).wait();
  std::printf("reduction=%.0f\n", *sum);
  int *g = sycl::malloc_shared<int>(n, q), *c = sycl::malloc_shared<int>(1, q);
  const sycl::nd_range<1> groups(n, group);
  q.parallel_for<Sub>(groups, [=](sycl::nd_item<1> it) [[sycl::reqd_sub_group_size(32)]] {
    auto sub = it.get_sub_group();
    g[it.get_global_id(0)] = sycl::reduce_over_group(sub, (int)sub.get_local_linear_id(), sycl::plus<int>());
  }).wait();
  std::printf("sub_group=%d\n", g[n - 1]);
  *c = 0;
  q.parallel_for<Count>(sycl::range<1>(n), [=](sycl::id<1>) {
    sycl::atomic_ref<int, sycl::memory_order::relaxed, sycl::memory_scope::device>(*c)++;
  }).wait();
  std::printf("atomic=%d\n", *c);
  auto first = sycl::ext::oneapi::experimental::submit_profiling_tag(q);
  axpy<float>(q, "again");
  auto last = sycl::ext::oneapi::experimental::submit_profiling_tag(q);
  last.wait();
  auto at = [](sycl::event &e) { return e.get_profiling_info<sycl::info::event_profiling::command_start>(); };
  std::printf("timed=%d\n", at(last) > at(first));
  try {
    sycl::get_native<sycl::backend::ext_oneapi_level_zero>(d);
    std::puts("native=given");
  } catch (const sycl::exception &) {
    std::puts("native=refused");
  }
}
"""
_RIGHT = {
    "devices": "1", "level_zero": "1", "eus": "448", "id": "bda", "group": "1024", "float": "16384",
    "double": "16384", "half": "16384", "bfloat16": "16384", "int": "16384", "again": "16384", "local": "384",
    "reduction": "3072", "sub_group": "496", "atomic": "2048", "timed": "1", "native": "refused",
}  # fmt: skip


def _answer(sycl_env: Path) -> dict[str, object]:
    library = sycl_env / "lib" / "libsycl.so.9"
    return {"torch": "2.13.0", "prefix": str(sycl_env), "xpu": True, "libsycl": str(library)}


def test_kernels_of_every_kind_compute_the_right_values_on_it(sycl_env: Path, tmp_path: Path) -> None:
    runtime = find_runtime(_answer(sycl_env), {}, sycl_env / "bin" / "python")
    library = adapter(runtime, os.environ, tmp_path / "cache")
    assert adapter(runtime, os.environ, tmp_path / "cache") == library, "made once"
    source = tmp_path / "device.cpp"
    source.write_text(_PROGRAM)
    icpx = install(tmp_path, sycl_env)
    env = {**os.environ, "LD_LIBRARY_PATH": str(sycl_env / "lib")}
    must([icpx, "-fsycl", "-std=c++17", "-w", source, "-o", tmp_path / "device"], env)
    done = subprocess.run([tmp_path / "device"], env=applied(runtime, library, env), capture_output=True,
                          text=True, check=False, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert found.pop("name").endswith(MARK)
    assert found == _RIGHT
    assert done.stderr.count("a native handle of Level Zero was asked for") == 1


def test_without_its_environment_there_is_no_gpu(sycl_env: Path, tmp_path: Path) -> None:
    """Nothing of it is found by a program that was not asked to use it."""
    source = tmp_path / "look.cpp"
    source.write_text(
        "#include <sycl/sycl.hpp>\n#include <cstdio>\nint main() {\n"
        'for (auto &d : sycl::device::get_devices()) std::printf("%d %s\\n", d.is_gpu(),'
        " d.get_info<sycl::info::device::name>().c_str());\n}\n"
    )
    include = sycl_env / "include"
    flags = ("-std=c++17", "-DSYCL_DISABLE_FSYCL_SYCLHPP_WARNING", f"-I{include}", f"-I{include / 'sycl'}")
    must(
        ["g++", *flags, source, f"-L{sycl_env / 'lib'}", "-lsycl", "-o", tmp_path / "look"], dict(os.environ)
    )
    env = {**os.environ, "LD_LIBRARY_PATH": str(sycl_env / "lib"),
           "OCL_ICD_FILENAMES": str(sycl_env / "lib" / "libintelocl.so")}  # fmt: skip
    done = subprocess.run(
        [tmp_path / "look"], env=env, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.startswith("0 ")
    assert MARK not in done.stdout


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A runtime as a folder of empty files: what find_runtime looks for."""
    for name in ("lib/libsycl.so.9", "lib/libur_loader.so.0", "lib/libintelocl.so", "include/ur_api.h",
                 "include/ur_ddi.h"):  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_what_it_needs_is_found_beside_libsycl(place: Path) -> None:
    found = find_runtime(_answer(place), {}, Path("python"))
    assert found == Runtime(
        place / "lib/libsycl.so.9",
        place / "include",
        place / "lib/libur_loader.so.0",
        place / "lib/libintelocl.so",
    )


def test_a_torch_for_the_cpu_is_refused(place: Path) -> None:
    with pytest.raises(UsageError, match="needs a torch for XPU") as caught:
        find_runtime({**_answer(place), "xpu": False}, {}, Path("python"))
    assert "2.13.0, which was built without XPU" in caught.value.why


def test_a_line_that_it_cannot_serve_is_named(place: Path) -> None:
    (place / "include" / "ur_ddi.h").unlink()
    old = (place / "lib" / "libsycl.so.9").rename(place / "lib" / "libsycl.so.8")
    with pytest.raises(ToolchainError, match=r"cannot serve libsycl\.so\.8 \(oneAPI 2025\)") as caught:
        find_runtime({**_answer(place), "libsycl": str(old)}, {}, Path("python"))
    assert "ur_ddi.h" in caught.value.why
    assert not caught.value.commands


def test_without_the_cpu_device_the_package_is_named(place: Path) -> None:
    (place / "lib" / "libintelocl.so").unlink()
    with pytest.raises(ToolchainError, match="needs Intel's OpenCL CPU device") as caught:
        find_runtime(_answer(place), {}, Path("/e/bin/python"))
    assert caught.value.commands == ("/e/bin/python -m pip install intel-opencl-rt",)


def test_without_a_compiler_it_says_so(place: Path, tmp_path: Path) -> None:
    runtime = find_runtime(_answer(place), {}, Path("python"))
    with pytest.raises(ToolchainError, match="needs a C\\+\\+ compiler"):
        adapter(runtime, {"PATH": str(tmp_path / "none")}, tmp_path / "cache")


_OPERATORS = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import importlib.util
spec = importlib.util.spec_from_file_location("standin_operators", sys.argv[1] + "/standin_operators.py")
ours = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ours)
for name in ours.OPERATORS:
    base, _, overload = name.partition(".")
    assert hasattr(getattr(torch.ops.aten, base), overload or "default"), name
a, b, out = torch.ones(2, 3), torch.ones(3, 2), torch.empty(0)
aten = torch.ops.aten
assert torch.equal(ours.computed(torch, aten.mm.default, a, b), a @ b)
assert ours.computed(torch, aten.mm.out, a, b, out=out) is out and torch.equal(out, a @ b)
x, w = torch.randn(1, 2, 5, 5, requires_grad=True), torch.randn(3, 2, 3, 3, requires_grad=True)
rest = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
y = aten.convolution.default(x, w, None, *rest)
y.sum().backward()
with torch.no_grad():
    given = ours._convolution_backward(torch, torch.ones_like(y), x, w, *rest, [True, True, True])
assert torch.allclose(given[0], x.grad) and torch.allclose(given[1], w.grad) and given[2].shape == (3,)
ours.install(torch)
assert not ours._KEPT, "not on the stand-in"
"""


def test_what_the_cpu_computes_for_onednn_is_right(torch_env: TorchEnv) -> None:
    must([torch_env.python, "-c", _OPERATORS, suite_dir()], dict(os.environ))


def test_the_cpu_build_of_torch_is_refused(torch_env: TorchEnv) -> None:
    with pytest.raises(UsageError, match="needs a torch for XPU") as caught:
        environment(torch_env.python, base_environment(), Path("/nowhere"))
    assert "2.13.0" in caught.value.why


def test_a_device_that_cannot_be_loaded_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    device = tmp_path / "libintelocl.so"
    device.write_text("no library")
    with pytest.raises(ToolchainError) as caught:
        require_loads(device, dict(os.environ), Path(sys.executable))
    assert str(device) in caught.value.why
    assert "oneTBB" in caught.value.fix

"""What is installed of PyTorch and beside it, and compile caches of an earlier one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.doctor_env import NO_GPU, EnvHost, findings
from support.doctor_shows import shows
from support.small_elf import library

from xpubuild.doctor.checks import caches, torch
from xpubuild.recipe.load import load


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


@shows("fail", "torch.xpu_build")
def test_a_cuda_torch_is_named(host: EnvHost) -> None:
    host.torch("2.8.0+cu128", xpu=False, cuda="12.8")
    found = torch.torch_xpu_build(host.context())
    assert (found.status, "CUDA 12.8" in found.detail) == ("fail", True)
    assert found.fix is not None
    assert "torch==2.8.0" in found.fix.commands[0]


def test_the_fix_of_a_mispaired_vision_names_what_belongs_to_torch(host: EnvHost) -> None:
    host.torch("2.8.0+xpu")
    host.vision("0.99.0", requires="torch==2.98.0")
    fix = torch.torch_vision_pairing(host.context()).fix
    assert fix is not None
    assert "the release that belongs to torch 2.8.0" in fix.summary
    assert fix.commands[0].endswith("uninstall -y torchvision")


def test_a_cache_that_is_older_than_torch(host: EnvHost) -> None:
    host.torch()
    place = host.folder / "inductor" / "a.so"
    library(place, needed=["libsycl.so.8"])
    host.environ["TORCHINDUCTOR_CACHE_DIR"] = str(host.folder / "inductor")
    assert caches.caches_stale(host.context()).status == "ok"
    os.utime(place, (1_000_000_000, 1_000_000_000))
    found = caches.caches_stale(host.context())
    assert (found.status, "older than torch" in found.detail) == ("warn", True)


def cpu_wheel(host: EnvHost) -> None:
    host.torch("2.8.0+cpu", xpu=False)


def two_sycl_runtimes(host: EnvHost) -> None:
    host.torch()
    host.oneapi({"compiler": "2026.0"})
    host.source(host.oneapi_root, {"compiler": "2026.0"})


def old_libstdcxx(host: EnvHost) -> None:
    host.torch()
    library(host.prefix / "lib" / "libstdc++.so.6", defines=["GLIBCXX_3.4", "GLIBCXX_3.4.28"])
    (host.prefix / "conda-meta").mkdir()


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (EnvHost.torch, set()),
        (cpu_wheel, {"torch.xpu_build"}),
        (two_sycl_runtimes, {"shadow.sycl_soname"}),
        (old_libstdcxx, {"shadow.libstdcxx"}),
    ],
)
def test_a_login_node_shows_what_its_compute_nodes_will_run(
    host: EnvHost, wrong: Callable[[EnvHost], object], expected: set[str]
) -> None:
    wrong(host)
    found = findings(host.context(profiles=frozenset({"run"})), NO_GPU)
    assert {name for name, status in found.items() if status == "fail"} == {"gpu.present", *expected}


def test_a_torch_for_the_cpu_is_right_where_the_recipe_is_for_it(host: EnvHost) -> None:
    host.torch("2.8.0+cpu", xpu=False)
    assert torch.torch_xpu_build(host.context(load("quickstart"))).status == "skip"

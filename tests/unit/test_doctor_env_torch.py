"""What is installed of PyTorch and beside it, and compile caches of an earlier one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import EnvHost
from support.doctor_shows import shows
from support.small_elf import library

from xpubuild.doctor.checks import caches, torch


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


@shows("fail", "torch.xpu_build")
def test_a_cuda_torch_is_named(host: EnvHost) -> None:
    host.torch("2.8.0+cu128", xpu=False, cuda="12.8")
    found = torch.TorchXpuBuild().run(host.context())
    assert (found.status, "CUDA 12.8" in found.detail) == ("fail", True)
    assert found.fix is not None
    assert "torch==2.8.0" in found.fix.commands[0]


def test_a_cpu_torch_may_have_any_one_triton(host: EnvHost) -> None:
    host.torch("2.8.0+cpu", xpu=False)
    host.triton("triton", "3.4.0", intel=False)
    assert torch.TorchOneTriton().run(host.context()).status == "skip"


def test_two_names_of_the_xpu_triton(host: EnvHost) -> None:
    host.torch()
    host.triton("triton-xpu", "3.5.0")
    found = torch.TorchOneTriton().run(host.context())
    assert found.status == "fail"
    assert "triton-xpu 3.5.0 and pytorch-triton-xpu 3.4.0 are installed" in found.detail


def test_another_triton_than_torch_requires(host: EnvHost) -> None:
    host.torch(requires=["pytorch-triton-xpu==3.5.0"])
    found = torch.TorchOneTriton().run(host.context())
    assert (found.status, "3.5.0" in found.detail) == ("fail", True)
    assert found.fix is not None
    assert found.fix.commands[0].endswith("uninstall -y pytorch-triton-xpu")


def test_a_vision_of_another_torch(host: EnvHost) -> None:
    host.torch()
    host.vision("0.24.0", requires="torch==2.9.0")
    assert "requires torch==2.9.0" in torch.TorchVisionPairing().run(host.context()).detail


def test_intels_extension_must_be_of_the_same_line(host: EnvHost) -> None:
    host.torch()
    host.dist("intel_extension_for_pytorch", "2.8.10+xpu")
    assert torch.TorchVisionPairing().run(host.context()).status == "ok"
    (host.site / "intel_extension_for_pytorch-2.8.10+xpu.dist-info").rename(
        host.site / "intel_extension_for_pytorch-2.7.10+xpu.dist-info"
    )
    assert torch.TorchVisionPairing().run(host.context()).status == "fail"


def test_a_cache_that_is_older_than_torch(host: EnvHost) -> None:
    host.torch()
    place = host.folder / "inductor" / "a.so"
    library(place, needed=["libsycl.so.8"])
    host.environ["TORCHINDUCTOR_CACHE_DIR"] = str(host.folder / "inductor")
    assert caches.CachesStale().run(host.context()).status == "ok"
    os.utime(place, (1_000_000_000, 1_000_000_000))
    found = caches.CachesStale().run(host.context())
    assert (found.status, "older than torch" in found.detail) == ("warn", True)


def test_a_large_cache(host: EnvHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "_LARGE_BYTES", 100)
    standin.write(host.folder / "home" / ".triton" / "cache" / "kernel.spv", "x" * 200)
    assert caches.CachesStale().run(host.context()).status == "warn"

"""Doctor and the real SYCL runtime of Intel's wheels, whole and damaged, asked through its own loader."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.doctor_frame import a_context
from support.doctor_shows import shows
from support.small_elf import library

from xpubuild.doctor.checks.runtimes import sycl_adapters
from xpubuild.doctor.checks.shadow import shadow_sycl_soname
from xpubuild.doctor.kit import Look

pytestmark = pytest.mark.slow


def context_of(environment: Path, **variables: str) -> Look:
    """Return what doctor knows in a shell whose selected Python is that of an environment."""
    environ = {"PATH": os.environ["PATH"], **variables}
    return replace(a_context(environ=environ), python=environment / "bin" / "python")


@pytest.fixture
def copy(sycl_env: Path, tmp_path: Path) -> Path:
    """An environment that a test may change: links, but copies of the loader, which follows its own."""
    copy = tmp_path / "environment"
    (copy / "bin").mkdir(parents=True)
    (copy / "bin" / "python").symlink_to(sycl_env / "bin" / "python")
    shutil.copy(sycl_env / "pyvenv.cfg", copy)
    shutil.copytree(sycl_env / "etc", copy / "etc")
    (copy / "lib").mkdir()
    for entry in (sycl_env / "lib").iterdir():
        if entry.name.startswith("libur_"):
            shutil.copy(entry, copy / "lib")
        elif not entry.is_dir():
            (copy / "lib" / entry.name).symlink_to(entry)
    return copy


@shows("ok", "sycl.adapters")
def test_all_adapters_load_and_the_cpu_is_listed(sycl_env: Path) -> None:
    device = str(sycl_env / "lib" / "libintelocl.so")
    found = sycl_adapters(context_of(sycl_env, OCL_ICD_FILENAMES=device))
    assert (found.status, found.detail) == ("ok", "opencl: 1 devices")
    assert found.evidence["adapters"][0]["platforms"][0]["name"] == "Intel(R) OpenCL"


@shows("fail", "sycl.adapters")
def test_an_adapter_whose_library_is_gone_is_named(copy: Path) -> None:
    for file in (copy / "lib").glob("libumf*"):
        file.unlink()
    found = sycl_adapters(context_of(copy))
    assert found.status == "fail"
    assert "libur_adapter_level_zero.so.0: libumf.so.1: cannot open shared object file" in found.detail
    assert "cuda" not in found.detail


def test_an_adapter_that_is_no_library_is_named(copy: Path) -> None:
    adapter = copy / "lib" / "libur_adapter_level_zero_v2.so.0"
    adapter.write_bytes(b"cut off")
    found = sycl_adapters(context_of(copy))
    assert found.status == "fail"
    assert "libur_adapter_level_zero_v2.so.0: " in found.detail
    assert "file too short" in found.detail


def test_without_a_runtime_nobody_is_asked(tmp_path: Path) -> None:
    assert sycl_adapters(context_of(tmp_path)).status == "skip"


def test_two_packages_with_different_runtimes_are_told_apart_from_torch(copy: Path) -> None:
    """As dpnp 0.20.0 and cyllama-sycl 0.2.18 in one environment: the second brings its libraries along."""
    version = ".".join(map(str, sys.version_info[:2]))
    site = copy / "lib" / f"python{version}" / "site-packages"
    library(site / "dpnp" / "libdpnp_backend_c.so", needed=["libsycl.so.9"])
    assert shadow_sycl_soname(context_of(copy)).status == "skip"
    library(site / "cyllama_sycl.libs" / "libggml-sycl-71f031c5.so", needed=["libsycl.so.8"])
    found = shadow_sycl_soname(context_of(copy))
    assert found.status == "fail"
    assert "libsycl.so.8 by " in found.detail
    assert "libsycl.so.9 by " in found.detail

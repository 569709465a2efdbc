"""Packages that harm an XPU build: left out where static MKL alone asks for them, refused otherwise."""

from __future__ import annotations

import dataclasses

import pytest

from xpubuild.errors import UnsatisfiableError
from xpubuild.supply.conda.lockfile import CondaLock, CondaPackage
from xpubuild.supply.conda.traps import keep_out, refuse


def lock(**needs: str) -> CondaLock:
    """Make a lock of packages and what they need, '_' for '-'."""
    packages = []
    for key, wanted in needs.items():
        name = key.replace("_", "-")
        filename = f"{name}-1-0.conda"
        made = CondaPackage(name, "1", "0", filename, f"file:///c/linux-64/{filename}", "0" * 64, "0" * 32)
        packages.append(dataclasses.replace(made, dependencies=dict.fromkeys(wanted.split(), "")))
    return CondaLock(tuple(packages), (), "")


def test_what_static_mkl_alone_asks_for_is_left_out_with_what_only_that_needs() -> None:
    whole = lock(
        python="libgcc", mkl_static="mkl-include tbb-devel intel-openmp libgcc", mkl_include="", libgcc="",
        tbb_devel="tbb", tbb="libhwloc libgcc", libhwloc="", intel_openmp="intel-cmplr-lib-ur",
        intel_cmplr_lib_ur="umf", umf="tcmlib", tcmlib="",
    )  # fmt: skip
    kept = keep_out(whole, ["python", "mkl-static", "mkl-include"])
    assert [item.name for item in kept.packages] == ["python", "mkl-static", "mkl-include", "libgcc"]
    assert kept.left_out == (
        "intel-cmplr-lib-ur", "intel-openmp", "libhwloc", "tbb", "tbb-devel", "tcmlib", "umf",
    )  # fmt: skip
    refuse(kept.packages)


def test_a_package_that_something_else_needs_is_refused_and_the_way_is_shown() -> None:
    whole = lock(mkl_static="tbb", numpy="libblas", libblas="mkl", mkl="tbb", tbb="")
    with pytest.raises(UnsatisfiableError) as caught:
        keep_out(whole, ["mkl-static", "numpy"])
    assert caught.value.exit_code == 22
    assert "the conda package mkl 1 must not be" in caught.value.what
    assert "numpy -> libblas -> mkl" in caught.value.why
    assert caught.value.evidence["through"] == ["numpy", "libblas", "mkl"]


@pytest.mark.parametrize(
    "name",
    ["tbb", "gxx_linux-64", "level-zero", "intel-sycl-rt", "sysroot_linux-64", "libstdcxx-devel_linux-64"],
)
def test_one_that_is_asked_for_is_refused(name: str) -> None:
    asked = CondaLock(
        (CondaPackage(name, "1", "0", f"{name}-1-0.conda", "file:///c/linux-64/x", "", ""),), (), ""
    )
    with pytest.raises(UnsatisfiableError, match=name):
        keep_out(asked, [name])
    with pytest.raises(UnsatisfiableError, match=name):
        refuse(asked.packages)

"""What checks of the environment answer where few machines lead them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import EnvHost, offline
from support.doctor_frame import a_context
from support.ocloc_standin import LTS_2350, add_module, add_ocloc
from support.small_elf import library

from xpubuild.doctor.checks import (
    build,
    driver,
    driver_build,
    oneapi,
    python,
    shadow,
    shadow_build,
    shadow_fabric,
    shadow_libstdcxx,
    sycl_runtime,
    toolchain,
    torch,
    wheels,
)
from xpubuild.doctor.context import CheckContext
from xpubuild.doctor.look.filesystem import Written
from xpubuild.doctor.model import Check
from xpubuild.machine.disk import DiskFacts
from xpubuild.machine.drivers import DriverFacts
from xpubuild.machine.host_report import PythonReport
from xpubuild.machine.system import OsFacts
from xpubuild.recipe.load import load
from xpubuild.recipe.model import Refusal

OLD = standin.BUNDLE_2025_1
ROCKY = OsFacts(id="rocky", id_like=("rhel",))
LEAP = OsFacts(id="opensuse-leap", id_like=("suse",))
STATES_ITS_VERSION = """[ "$1" = --version ] || exit 1
echo 'Intel(R) oneAPI DPC++/C++ Compiler 2025.1.1 (x)'
"""
HIDDEN = """[ -z "$LD_LIBRARY_PATH" ] || { echo "libigc.so: wrong version"; exit 127; }"""
Prepared = Callable[[EnvHost], CheckContext]


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


def for_the_cpu(host: EnvHost) -> CheckContext:
    return host.context(load("quickstart"))


def without_python(host: EnvHost) -> CheckContext:
    host.facts["python"] = PythonReport(None, ())
    return host.context(load("quickstart"))


def with_a_disk_of_unknown_size(host: EnvHost) -> CheckContext:
    host.facts["disk"] = DiskFacts(str(host.folder / "work"))
    return host.context()


def without_a_compiler(host: EnvHost) -> CheckContext:
    standin.build_root(host.oneapi_root, {"mkl": "2025.1"})
    host.environ["ONEAPI_ROOT"] = str(host.oneapi_root)
    return host.context()


def with_mpi_alone(host: EnvHost) -> CheckContext:
    root = standin.build_root(host.oneapi_root, {"compiler": "2025.1", "mpi": "2021.15"})
    host.environ["I_MPI_ROOT"] = str(root / "mpi" / "2021.15")
    return host.context(offline("2.8"))


def with_two_of_everything(host: EnvHost) -> CheckContext:
    host.torch()
    for name in ("libsycl.so.8", "libur_loader.so.0", "libumf.so.1", "libccl.so.1"):
        library(host.prefix / "lib" / name, mark="of pip")
        library(host.folder / "module" / name, mark="of a module")
    host.environ["LD_LIBRARY_PATH"] = str(host.folder / "module")
    return host.context()


def with_the_runtime_of_torch_sourced(host: EnvHost) -> CheckContext:
    host.torch()
    root = host.oneapi(OLD)
    host.source(root, OLD)
    library(host.prefix / "lib" / "libur_loader.so.0", mark="of pip")
    library(root / "compiler" / OLD["compiler"] / "lib" / "libur_loader.so.0", mark="of oneAPI")
    return host.context()


def with_dpctl_and_dpnp(host: EnvHost) -> CheckContext:
    library(host.site / "dpctl" / "libDPCTLSyclInterface.so.0", needed=["libsycl.so.7"])
    library(host.site / "dpnp" / "backend.so", needed=["libsycl.so.8"])
    return host.context()


def with_torch_for_the_cpu(host: EnvHost) -> CheckContext:
    host.torch("2.8.0+cpu", xpu=False)
    return host.context()


def with_dnnl(system: OsFacts) -> Prepared:
    def prepare(host: EnvHost) -> CheckContext:
        standin.write(host.folder / "image" / "usr" / "include" / "dnnl.hpp", "")
        return a_context(host.folder / "image", os=system)

    return prepare


def with_mpi_and_no_libfabric(host: EnvHost) -> CheckContext:
    host.environ["I_MPI_ROOT"] = str(host.folder / "mpi")
    return host.context()


def with_a_libfabric_that_has_all(host: EnvHost) -> CheckContext:
    library(host.folder / "fabric" / "libfabric.so.1", defines=["FABRIC_1.0"])
    host.environ.update(I_MPI_ROOT=str(host.folder / "mpi"), LD_LIBRARY_PATH=str(host.folder / "fabric"))
    return host.context()


def with_two_libfabrics(host: EnvHost) -> CheckContext:
    own = host.folder / "mpi" / "libfabric" / "lib"
    library(own / "libfabric.so.1", defines=["FABRIC_1.0", "FABRIC_1.7"])
    return with_a_libfabric_that_has_all(host)


def without_libstdcxx(host: EnvHost) -> CheckContext:
    return host.context(loader=(host.folder / "nothing",))


def without_a_driver(host: EnvHost) -> CheckContext:
    (host.system / "libze_intel_gpu.so.1").unlink()
    return host.context()


def with_icpx(text: str) -> Prepared:
    def prepare(host: EnvHost) -> CheckContext:
        root = host.oneapi(OLD)
        program = root / "compiler" / OLD["compiler"] / "bin" / "icpx"
        standin.write(program, f"#!/bin/sh\n{text}", mode=0o755)
        return host.context(offline("2.8"))

    return prepare


def in_an_image(host: EnvHost) -> CheckContext:
    (host.folder / "image").mkdir()
    return a_context(host.folder / "image")


def with_torch_and_no_triton(host: EnvHost) -> CheckContext:
    host.torch(requires=())
    return host.context()


def with_the_triton_of_cuda(host: EnvHost) -> CheckContext:
    host.torch(requires=())
    host.triton("triton", "3.4.0", intel=False)
    return host.context()


def with_companions(host: EnvHost) -> CheckContext:
    host.torch("2.8.0+xpu")
    host.vision("0.24.0", requires="torch==2.9.0")
    host.dist("intel-extension-for-pytorch", "2.7.10")
    return host.context()


def with_a_placeholder_of_nothing(host: EnvHost) -> CheckContext:
    file = host.prefix / "etc" / "OpenCL" / "vendors" / "intel64.icd"
    standin.write(file, "/opt/anaconda1anaconda2anaconda3/lib/libintelocl.so\n")
    return host.context()


def with_the_library_of_a_placeholder(host: EnvHost) -> CheckContext:
    host.environ["OCL_ICD_FILENAMES"] = f"/gone.so:{host.prefix}/lib/libintelocl.so"
    return with_a_placeholder(host)


def with_a_placeholder(host: EnvHost) -> CheckContext:
    standin.write(host.prefix / "lib" / "libintelocl.so", "")
    return with_a_placeholder_of_nothing(host)


def with_ocloc(
    *knows: str, before: str = "", recipe: str = "", environ: Mapping[str, str] | None = None
) -> Prepared:
    def prepare(host: EnvHost) -> CheckContext:
        folder = add_ocloc(host.folder / "driver", knows, before=before).parent
        host.environ = {**host.environ, "PATH": f"{folder}:{host.environ['PATH']}", **(environ or {})}
        return host.context(offline(recipe) if recipe else None)

    return prepare


def with_a_module_of_ocloc(host: EnvHost) -> CheckContext:
    programs, libraries = add_module(host.folder / "module")
    host.environ.update(PATH=f"{programs}:{host.environ['PATH']}", LD_LIBRARY_PATH=f"/opt/x:{libraries}")
    return host.context()


def with_a_refused_driver(host: EnvHost) -> CheckContext:
    host.facts["drivers"] = (DriverFacts("rolling", "libze-intel-gpu1", "25.35.35096.9-0", "dpkg"),)
    loaded = offline("2.8")
    needs = loaded.recipe.needs.model_copy(update={"gpus": [], "drivers": ["rolling"]})
    refusal = Refusal(driver="rolling", why="kernels of this release hang with it")
    changes = {"needs": needs, "refuses": [refusal]}
    recipe = loaded.recipe.model_copy(update=changes)
    return host.context(loaded.model_copy(update={"recipe": recipe}))


#: Test -> what is prepared, the check that is asked, how it answers.
SELDOM: dict[str, tuple[Prepared, type[Check], str]] = {
    "ocloc for the CPU": (for_the_cpu, driver_build.Ocloc, "ok"),
    "ocloc that knows no target": (with_ocloc("bmg"), driver_build.Ocloc, "warn"),
    "ocloc that does not know all of a recipe": (
        with_ocloc(*LTS_2350, recipe="2.13"),
        driver_build.Ocloc,
        "fail",
    ),
    "ocloc that fails": (with_ocloc(before="echo out of luck; exit 9"), driver_build.Ocloc, "warn"),
    "ocloc that makes nothing": (with_ocloc(before="exit 0", recipe="2.13"), driver_build.Ocloc, "fail"),
    "ocloc whose library is hidden": (
        with_ocloc("pvc", before=HIDDEN, environ={"XPUBUILD_EXTRA_LIBRARY_PATH": "/opt/other/lib"}),
        driver_build.Ocloc,
        "warn",
    ),
    "ocloc of a module": (with_a_module_of_ocloc, driver_build.Ocloc, "warn"),
    "a driver that is refused": (with_a_refused_driver, driver.RecipeDriver, "fail"),
    "components of nothing": (lambda host: host.context(offline("2.8")), oneapi.OneapiComponents, "fail"),
    "icpx for the CPU": (for_the_cpu, toolchain.ToolchainIcpx, "skip"),
    "SYCL for the CPU": (for_the_cpu, toolchain.ToolchainSyclCmake, "skip"),
    "components for the CPU": (for_the_cpu, oneapi.OneapiComponents, "skip"),
    "no Python that runs": (without_python, python.PythonRuns, "skip"),
    "no Python with a version": (without_python, python.PythonVersion, "skip"),
    "no Python with headers": (without_python, python.PythonHeaders, "skip"),
    "no Python for wheels": (without_python, wheels.NetworkWheels, "skip"),
    "no Python with torch": (without_python, torch.TorchVisionPairing, "skip"),
    "free space that is not known": (with_a_disk_of_unknown_size, build.BuildDisk, "skip"),
    "oneAPI without a compiler": (without_a_compiler, oneapi.OneapiInstalled, "warn"),
    "sourced without a compiler": (with_mpi_alone, oneapi.OneapiSourced, "ok"),
    "no oneAPI to mix": (EnvHost.context, oneapi.OneapiMixed, "ok"),
    "no icpx": (EnvHost.context, toolchain.ToolchainIcpx, "skip"),
    "no SYCL": (EnvHost.context, toolchain.ToolchainSyclCmake, "skip"),
    "four libraries twice": (with_two_of_everything, shadow.ShadowLibraries, "fail"),
    "torch's own release sourced": (with_the_runtime_of_torch_sourced, shadow.ShadowLibraries, "ok"),
    "two runtimes without torch": (with_dpctl_and_dpnp, shadow.ShadowSyclSoname, "fail"),
    "no runtime that torch needs": (with_torch_for_the_cpu, shadow.ShadowSyclSoname, "skip"),
    "no companion of torch": (with_torch_for_the_cpu, torch.TorchVisionPairing, "skip"),
    "oneDNN of Rocky": (with_dnnl(ROCKY), shadow_build.ShadowSystem, "warn"),
    "oneDNN of openSUSE": (with_dnnl(LEAP), shadow_build.ShadowSystem, "warn"),
    "oneDNN of another system": (with_dnnl(OsFacts(id="void")), shadow_build.ShadowSystem, "warn"),
    "no libfabric": (with_mpi_and_no_libfabric, shadow_fabric.ShadowLibfabric, "skip"),
    "a libfabric that has all": (with_a_libfabric_that_has_all, shadow_fabric.ShadowLibfabric, "ok"),
    "an older libfabric for MPI": (with_two_libfabrics, shadow_fabric.ShadowLibfabric, "warn"),
    "no libstdc++": (without_libstdcxx, shadow_libstdcxx.ShadowLibstdcxx, "skip"),
    "no driver that needs libstdc++": (without_a_driver, shadow_libstdcxx.ShadowLibstdcxx, "skip"),
    "icpx fails in silence": (with_icpx("exit 3\n"), toolchain.ToolchainIcpx, "fail"),
    "icpx reads no SYCL in silence": (with_icpx(STATES_ITS_VERSION), toolchain.ToolchainIcpx, "warn"),
    "icpx of LLVM": (with_icpx("echo clang version 20.0.0\n"), toolchain.ToolchainIcpx, "fail"),
    "the compiler of an image": (in_an_image, toolchain.ToolchainGcc, "skip"),
    "no triton": (with_torch_and_no_triton, torch.TorchOneTriton, "ok"),
    "the triton of CUDA": (with_the_triton_of_cuda, torch.TorchOneTriton, "fail"),
    "companions of another torch": (with_companions, torch.TorchVisionPairing, "fail"),
    "a placeholder": (with_a_placeholder, sycl_runtime.OpenclPlaceholder, "warn"),
    "a placeholder and its library": (
        with_the_library_of_a_placeholder,
        sycl_runtime.OpenclPlaceholder,
        "ok",
    ),
    "a placeholder of nothing": (with_a_placeholder_of_nothing, sycl_runtime.OpenclPlaceholder, "warn"),
}


@pytest.mark.parametrize("name", SELDOM)
def test_seldom(host: EnvHost, name: str) -> None:
    prepare, check, status = SELDOM[name]
    assert check().run(prepare(host)).status == status


@pytest.mark.parametrize(("ahead", "status"), [(-100.0, "fail"), (2.5, "warn"), (2.0, "ok")])
def test_a_file_server_with_another_clock(
    host: EnvHost, monkeypatch: pytest.MonkeyPatch, ahead: float, status: str
) -> None:
    monkeypatch.setattr(build, "write_small", lambda _folder: Written(ahead_s=ahead))
    assert build.BuildClock().run(host.context()).status == status


def test_a_file_system_without_capitals(host: EnvHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "ignores_capitals", lambda _folder: True)
    assert build.BuildFilesystem().run(host.context()).status == "warn"

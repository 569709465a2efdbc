"""What checks of the environment answer where few machines lead them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import EnvHost, offline
from support.doctor_frame import a_context, assert_answer
from support.ocloc_standin import LTS_2350, add_module, add_ocloc
from support.small_elf import library

from xpubuild.doctor.checks import (
    build,
    driver,
    oneapi,
    python,
    runtimes,
    shadow,
    shadow_build,
    shadow_fabric,
    shadow_libstdcxx,
    toolchain,
    torch,
    wheels,
)
from xpubuild.doctor.kit import Check, Look
from xpubuild.doctor.look.filesystem import Written
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
Prepared = Callable[[EnvHost], Look]


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


def for_the_cpu(host: EnvHost) -> Look:
    return host.context(load("quickstart"))


def without_python(host: EnvHost) -> Look:
    host.facts["python"] = PythonReport(None, ())
    return host.context(load("quickstart"))


def with_a_disk_of_unknown_size(host: EnvHost) -> Look:
    host.facts["disk"] = DiskFacts(str(host.folder / "work"))
    return host.context()


def without_a_compiler(host: EnvHost) -> Look:
    standin.build_root(host.oneapi_root, {"mkl": "2025.1"})
    host.environ["ONEAPI_ROOT"] = str(host.oneapi_root)
    return host.context()


def with_mpi_alone(host: EnvHost) -> Look:
    root = standin.build_root(host.oneapi_root, {"compiler": "2025.1", "mpi": "2021.15"})
    host.environ["I_MPI_ROOT"] = str(root / "mpi" / "2021.15")
    return host.context(offline("2.8"))


def with_two_of_everything(host: EnvHost) -> Look:
    host.torch()
    for name in ("libsycl.so.8", "libur_loader.so.0", "libumf.so.1", "libccl.so.1"):
        library(host.prefix / "lib" / name, mark="of pip")
        library(host.folder / "module" / name, mark="of a module")
    host.environ["LD_LIBRARY_PATH"] = str(host.folder / "module")
    return host.context()


def with_the_runtime_of_torch_sourced(host: EnvHost) -> Look:
    host.torch()
    root = host.oneapi(OLD)
    host.source(root, OLD)
    library(host.prefix / "lib" / "libur_loader.so.0", mark="of pip")
    library(root / "compiler" / OLD["compiler"] / "lib" / "libur_loader.so.0", mark="of oneAPI")
    return host.context()


def with_dpctl_and_dpnp(host: EnvHost) -> Look:
    library(host.site / "dpctl" / "libDPCTLSyclInterface.so.0", needed=["libsycl.so.7"])
    library(host.site / "dpnp" / "backend.so", needed=["libsycl.so.8"])
    return host.context()


def with_torch_for_the_cpu(host: EnvHost) -> Look:
    host.torch("2.8.0+cpu", xpu=False)
    return host.context()


def with_dnnl(system: OsFacts) -> Prepared:
    def prepare(host: EnvHost) -> Look:
        standin.write(host.folder / "image" / "usr" / "include" / "dnnl.hpp", "")
        return a_context(host.folder / "image", os=system)

    return prepare


def with_mpi_and_no_libfabric(host: EnvHost) -> Look:
    host.environ["I_MPI_ROOT"] = str(host.folder / "mpi")
    return host.context()


def with_a_libfabric_that_has_all(host: EnvHost) -> Look:
    library(host.folder / "fabric" / "libfabric.so.1", defines=["FABRIC_1.0"])
    host.environ.update(I_MPI_ROOT=str(host.folder / "mpi"), LD_LIBRARY_PATH=str(host.folder / "fabric"))
    return host.context()


def with_two_libfabrics(host: EnvHost) -> Look:
    own = host.folder / "mpi" / "libfabric" / "lib"
    library(own / "libfabric.so.1", defines=["FABRIC_1.0", "FABRIC_1.7"])
    return with_a_libfabric_that_has_all(host)


def without_libstdcxx(host: EnvHost) -> Look:
    return host.context(loader=(host.folder / "nothing",))


def without_a_driver(host: EnvHost) -> Look:
    (host.system / "libze_intel_gpu.so.1").unlink()
    return host.context()


def with_icpx(text: str) -> Prepared:
    def prepare(host: EnvHost) -> Look:
        root = host.oneapi(OLD)
        program = root / "compiler" / OLD["compiler"] / "bin" / "icpx"
        standin.write(program, f"#!/bin/sh\n{text}", mode=0o755)
        return host.context(offline("2.8"))

    return prepare


def in_an_image(host: EnvHost) -> Look:
    (host.folder / "image").mkdir()
    return a_context(host.folder / "image")


def with_torch_and_no_triton(host: EnvHost) -> Look:
    host.torch(requires=())
    return host.context()


def with_the_triton_of_cuda(host: EnvHost) -> Look:
    host.torch(requires=())
    host.triton("triton", "3.4.0", intel=False)
    return host.context()


def with_companions(host: EnvHost) -> Look:
    host.torch("2.8.0+xpu")
    host.vision("0.24.0", requires="torch==2.9.0")
    host.dist("intel-extension-for-pytorch", "2.7.10")
    return host.context()


def with_a_placeholder_of_nothing(host: EnvHost) -> Look:
    file = host.prefix / "etc" / "OpenCL" / "vendors" / "intel64.icd"
    standin.write(file, "/opt/anaconda1anaconda2anaconda3/lib/libintelocl.so\n")
    return host.context()


def with_the_library_of_a_placeholder(host: EnvHost) -> Look:
    host.environ["OCL_ICD_FILENAMES"] = f"/gone.so:{host.prefix}/lib/libintelocl.so"
    return with_a_placeholder(host)


def with_a_placeholder(host: EnvHost) -> Look:
    standin.write(host.prefix / "lib" / "libintelocl.so", "")
    return with_a_placeholder_of_nothing(host)


def with_ocloc(
    *knows: str, before: str = "", recipe: str = "", environ: Mapping[str, str] | None = None
) -> Prepared:
    def prepare(host: EnvHost) -> Look:
        folder = add_ocloc(host.folder / "driver", knows, before=before).parent
        host.environ = {**host.environ, "PATH": f"{folder}:{host.environ['PATH']}", **(environ or {})}
        return host.context(offline(recipe) if recipe else None)

    return prepare


def with_a_module_of_ocloc(host: EnvHost) -> Look:
    programs, libraries = add_module(host.folder / "module")
    host.environ.update(PATH=f"{programs}:{host.environ['PATH']}", LD_LIBRARY_PATH=f"/opt/x:{libraries}")
    return host.context()


def with_a_refused_driver(host: EnvHost) -> Look:
    host.facts["drivers"] = (DriverFacts("rolling", "libze-intel-gpu1", "25.35.35096.9-0", "dpkg"),)
    loaded = offline("2.8")
    needs = loaded.recipe.needs.model_copy(update={"gpus": [], "drivers": ["rolling"]})
    refusal = Refusal(driver="rolling", why="kernels of this release hang with it")
    changes = {"needs": needs, "refuses": [refusal]}
    recipe = loaded.recipe.model_copy(update=changes)
    return host.context(loaded.model_copy(update={"recipe": recipe}))


#: Test -> what is prepared, the check that is asked, how it answers: status, words, first command.
SELDOM: dict[str, tuple[Prepared, Check, str, str, str]] = {
    "ocloc for the CPU": (
        for_the_cpu,
        driver.driver_ocloc,
        "ok",
        "the recipe does not compile kernels ahead of time",
        "",
    ),
    "ocloc that knows no target": (
        with_ocloc("bmg"),
        driver.driver_ocloc,
        "warn",
        "does not know pvc",
        "xpubuild recipes matrix --here",
    ),
    "ocloc that does not know all of a recipe": (
        with_ocloc(*LTS_2350, recipe="2.13"),
        driver.driver_ocloc,
        "fail",
        "does not know bmg, which flash attention (sycl-tla) is compiled for",
        "xpubuild recipes matrix --here",
    ),
    "ocloc that fails": (
        with_ocloc(before="echo out of luck; exit 9"),
        driver.driver_ocloc,
        "warn",
        "does not compile for pvc: out of luck",
        "apt-get update",
    ),
    "ocloc that makes nothing": (
        with_ocloc(before="exit 0", recipe="2.13"),
        driver.driver_ocloc,
        "fail",
        "does not compile for pvc: it exited with code 0, without a device",
        "apt-get update",
    ),
    "ocloc whose library is hidden": (
        with_ocloc("pvc", before=HIDDEN, environ={"XPUBUILD_EXTRA_LIBRARY_PATH": "/opt/other/lib"}),
        driver.driver_ocloc,
        "warn",
        "runs, but not with XPUBUILD_EXTRA_LIBRARY_PATH=/opt/other/lib",
        "unset XPUBUILD_EXTRA_LIBRARY_PATH",
    ),
    "ocloc of a module": (
        with_a_module_of_ocloc,
        driver.driver_ocloc,
        "warn",
        "runs with the LD_LIBRARY_PATH of this shell only, which builds do not",
        "export",
    ),
    "a driver that is refused": (
        with_a_refused_driver,
        driver.driver_recipe,
        "fail",
        "2.8 kernels of this release hang with it",
        "xpubuild recipes matrix",
    ),
    "components of nothing": (
        lambda host: host.context(offline("2.8")),
        oneapi.oneapi_components,
        "fail",
        "no oneAPI installation was found",
        "# Intel's repository of oneAPI, not tried here; see",
    ),
    "icpx for the CPU": (
        for_the_cpu,
        toolchain.toolchain_icpx,
        "skip",
        "the recipe builds for the CPU and needs no SYCL compiler",
        "",
    ),
    "SYCL for the CPU": (
        for_the_cpu,
        toolchain.toolchain_sycl_cmake,
        "skip",
        "the recipe builds for the CPU and needs no SYCL toolkit",
        "",
    ),
    "components for the CPU": (
        for_the_cpu,
        oneapi.oneapi_components,
        "skip",
        "the recipe builds for the CPU and needs no oneAPI",
        "",
    ),
    "no Python that runs": (without_python, python.python_runs, "skip", "no Python was found", ""),
    "no Python with a version": (without_python, python.python_version, "skip", "no Python was found", ""),
    "no Python with headers": (
        without_python,
        python.python_headers,
        "skip",
        "no Python was found, or it could not be run",
        "",
    ),
    "no Python for wheels": (without_python, wheels.network_wheels, "skip", "no Python was found", ""),
    "no Python with torch": (
        without_python,
        torch.torch_vision_pairing,
        "skip",
        "torch is not installed in the selected Python",
        "",
    ),
    "free space that is not known": (
        with_a_disk_of_unknown_size,
        build.build_disk,
        "skip",
        "the free space at",
        "",
    ),
    "oneAPI without a compiler": (
        without_a_compiler,
        oneapi.oneapi_installed,
        "warn",
        "has no compiler; only building for XPU needs it",
        "# Intel's repository of oneAPI, not tried here; see",
    ),
    "sourced without a compiler": (
        with_mpi_alone,
        oneapi.oneapi_sourced,
        "ok",
        "sourced: components without the compiler",
        "",
    ),
    "no oneAPI to mix": (EnvHost.context, oneapi.oneapi_mixed, "ok", "no oneAPI is installed or sourced", ""),
    "no icpx": (EnvHost.context, toolchain.toolchain_icpx, "skip", "no oneAPI compiler is installed", ""),
    "no SYCL": (
        EnvHost.context,
        toolchain.toolchain_sycl_cmake,
        "skip",
        "no oneAPI compiler is installed",
        "",
    ),
    "four libraries twice": (
        with_two_of_everything,
        shadow.shadow_libraries,
        "fail",
        "takes precedence over",
        "unset LD_LIBRARY_PATH LD_PRELOAD",
    ),
    "torch's own release sourced": (
        with_the_runtime_of_torch_sourced,
        shadow.shadow_libraries,
        "ok",
        "no library on LD_LIBRARY_PATH or LD_PRELOAD takes precedence over",
        "",
    ),
    "two runtimes without torch": (
        with_dpctl_and_dpnp,
        shadow.shadow_sycl_soname,
        "fail",
        "installed packages need more than one SYCL runtime: libsycl.so.7 by",
        "",
    ),
    "no runtime that torch needs": (
        with_torch_for_the_cpu,
        shadow.shadow_sycl_soname,
        "skip",
        "the installed torch needs no SYCL runtime",
        "",
    ),
    "no companion of torch": (
        with_torch_for_the_cpu,
        torch.torch_vision_pairing,
        "skip",
        "neither torchvision nor torchaudio is installed",
        "",
    ),
    "oneDNN of Rocky": (
        with_dnnl(ROCKY),
        shadow_build.shadow_system,
        "warn",
        "the system has /usr/include/dnnl.hpp",
        "dnf remove onednn-devel",
    ),
    "oneDNN of openSUSE": (
        with_dnnl(LEAP),
        shadow_build.shadow_system,
        "warn",
        "the system has /usr/include/dnnl.hpp",
        "zypper remove onednn-devel",
    ),
    "oneDNN of another system": (
        with_dnnl(OsFacts(id="void")),
        shadow_build.shadow_system,
        "warn",
        "the system has /usr/include/dnnl.hpp",
        "",
    ),
    "no libfabric": (
        with_mpi_and_no_libfabric,
        shadow_fabric.shadow_libfabric,
        "skip",
        "no libfabric.so.1 is on LD_LIBRARY_PATH or in the system's folders",
        "",
    ),
    "a libfabric that has all": (
        with_a_libfabric_that_has_all,
        shadow_fabric.shadow_libfabric,
        "ok",
        "with built-in providers",
        "",
    ),
    "an older libfabric for MPI": (
        with_two_libfabrics,
        shadow_fabric.shadow_libfabric,
        "warn",
        "two copies in one process; MPI's is older and lacks FABRIC_1.7",
        "export",
    ),
    "no libstdc++": (
        without_libstdcxx,
        shadow_libstdcxx.shadow_libstdcxx,
        "skip",
        "no libstdc++ was found to compare with",
        "",
    ),
    "no driver that needs libstdc++": (
        without_a_driver,
        shadow_libstdcxx.shadow_libstdcxx,
        "skip",
        "no driver library that needs libstdc++ was found",
        "",
    ),
    "icpx fails in silence": (
        with_icpx("exit 3\n"),
        toolchain.toolchain_icpx,
        "fail",
        "the installation that a build would use) exited with code 3: no output",
        "--version",
    ),
    "icpx reads no SYCL in silence": (
        with_icpx(STATES_ITS_VERSION),
        toolchain.toolchain_icpx,
        "warn",
        "reports its version, but cannot parse an empty SYCL source: it",
        "-fsycl -fsyntax-only -x c++ /dev/null",
    ),
    "icpx of LLVM": (
        with_icpx("echo clang version 20.0.0\n"),
        toolchain.toolchain_icpx,
        "fail",
        "the installation that a build would use) is not Intel's oneAPI",
        "--version",
    ),
    "the compiler of an image": (
        in_an_image,
        toolchain.toolchain_gcc,
        "skip",
        "the version of a compiler in an image cannot be read from files",
        "",
    ),
    "no triton": (
        with_torch_and_no_triton,
        torch.torch_one_triton,
        "ok",
        "triton is not installed; torch.compile needs it",
        "",
    ),
    "the triton of CUDA": (
        with_the_triton_of_cuda,
        torch.torch_one_triton,
        "fail",
        "torch is built for XPU, but the installed triton is triton 3.4.0",
        "-m pip uninstall -y triton",
    ),
    "companions of another torch": (
        with_companions,
        torch.torch_vision_pairing,
        "fail",
        "torchvision 0.24.0 requires torch==2.9.0, but torch 2.8.0+xpu is",
        "-m pip uninstall -y torchvision intel-extension-for-pytorch",
    ),
    "a placeholder": (
        with_a_placeholder,
        runtimes.opencl_cpu,
        "warn",
        "names /opt/anaconda1anaconda2anaconda3/lib/libintelocl.so, which does",
        "export",
    ),
    "a placeholder and its library": (
        with_the_library_of_a_placeholder,
        runtimes.opencl_cpu,
        "ok",
        "/gone.so",
        "",
    ),
    "a placeholder of nothing": (
        with_a_placeholder_of_nothing,
        runtimes.opencl_cpu,
        "warn",
        "names /opt/anaconda1anaconda2anaconda3/lib/libintelocl.so, which does",
        "",
    ),
}


@pytest.mark.parametrize("name", SELDOM)
def test_seldom(host: EnvHost, name: str) -> None:
    prepare, check, status, told, types = SELDOM[name]
    assert_answer(check(prepare(host)), status, told, types)


@pytest.mark.parametrize(("ahead", "status"), [(-100.0, "fail"), (2.5, "warn"), (2.0, "ok")])
def test_a_file_server_with_another_clock(
    host: EnvHost, monkeypatch: pytest.MonkeyPatch, ahead: float, status: str
) -> None:
    monkeypatch.setattr(build, "write_small", lambda _folder: Written(ahead_s=ahead))
    assert build.build_clock(host.context()).status == status


def test_a_file_system_without_capitals(host: EnvHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "ignores_capitals", lambda _folder: True)
    assert build.build_filesystem(host.context()).status == "warn"

"""doctor: the checks of the environment, one question at a time."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import DEBIAN, GIB, EnvHost, offline
from support.doctor_frame import a_context
from support.imports import imports_of
from support.small_elf import library

from xpubuild.build.sitepackages import installed_dists
from xpubuild.doctor.checks import (
    build,
    caches,
    machine,
    network,
    oneapi,
    python,
    shadow,
    shadow_build,
    toolchain,
    torch,
)
from xpubuild.doctor.checks.shadow_libstdcxx import ShadowLibstdcxx
from xpubuild.doctor.context import Context
from xpubuild.doctor.look import filesystem, libraries, pip, sites
from xpubuild.doctor.look.toolkits import sourced, toolkits
from xpubuild.doctor.model import Outcome
from xpubuild.doctor.registry import shipped
from xpubuild.host.capacity import CpuFacts, MemoryFacts
from xpubuild.host.disk import DiskFacts
from xpubuild.host.tools import CompilerFacts, ToolFacts
from xpubuild.recipe.load import load
from xpubuild.source.git import OLDEST

OLD = standin.BUNDLE_2025_1
MODULES = (build, caches, machine, network, oneapi, python, shadow, shadow_build, toolchain, torch)


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


def test_constants_are_those_of_their_sources() -> None:
    base = load("2.13").recipe
    assert base.needs.disk_gib == build.DISK_GIB
    assert base.components["torch"].build.memory_gib_per_job == build.GIB_PER_JOB
    assert toolchain.OLDEST_GIT == OLDEST


def test_every_check_explains_itself() -> None:
    mine = {module.__name__ for module in MODULES} | {"xpubuild.doctor.checks.shadow_libstdcxx"}
    checks = [check for check in shipped() if check.__module__ in mine]
    assert len(checks) >= 30
    for check in checks:
        assert len(check.explanation) > 100, check.id
        assert check.families, check.id
        assert check.deadline_s <= 20
        assert "|" not in check.title


def test_nothing_here_imports_torch() -> None:
    for module in MODULES:
        path = Path(str(module.__file__))
        assert not [item for item in imports_of(module.__name__, path) if item.of("torch")]


# oneAPI


def test_the_unified_layout_is_one_toolkit(host: EnvHost) -> None:
    folder = standin.build_unified(host.oneapi_root)
    host.environ.update(ONEAPI_ROOT=str(folder), CMPLR_ROOT=str(folder), MKLROOT=str(folder))
    context = host.context()
    assert [item.root.toolkit for item in context.probe(toolkits)] == ["2025.1"]
    assert {item.version for item in context.probe(sourced)} == {"2025.1"}
    assert oneapi.OneapiMixed().run(context).status == "ok"
    assert oneapi.OneapiSourced().run(host.context(offline("2.8"))).status == "ok"
    assert oneapi.OneapiSourced().run(host.context(offline("2.13"))).status == "fail"


def test_a_toolkit_with_a_name_for_a_version_is_known(host: EnvHost) -> None:
    standin.build_unified(host.oneapi_root, "pytorch-gpu-dev-0.5", full_version="2024.1.4")
    host.environ["ONEAPI_ROOT"] = str(host.oneapi_root)
    assert oneapi.OneapiInstalled().run(host.context(offline("2.5"))).status == "ok"
    assert oneapi.OneapiInstalled().run(host.context(offline("2.8"))).status == "fail"


def test_no_oneapi_is_a_warning_without_a_recipe_and_nothing_for_the_cpu(host: EnvHost) -> None:
    assert oneapi.OneapiInstalled().run(host.context()).status == "warn"
    assert oneapi.OneapiInstalled().run(host.context(load("quickstart"))).status == "skip"


def test_a_dangling_link_is_told(host: EnvHost) -> None:
    root = host.oneapi(OLD)
    (root / "umf" / "latest").unlink()
    (root / "umf" / "latest").symlink_to("0.1")
    found = oneapi.OneapiMixed().run(host.context())
    assert (found.status, "umf/latest" in found.detail) == ("warn", True)


def test_the_fix_of_a_missing_oneapi_fits_the_distribution(host: EnvHost) -> None:
    fix = oneapi.OneapiInstalled().run(host.context(offline("2.8"))).fix
    assert fix is not None
    assert any("apt-get install -y intel-deep-learning-essentials-2025.1" in line for line in fix.commands)


def test_an_image_is_looked_at_by_its_files(tmp_path: Path) -> None:
    root = tmp_path / "image"
    standin.build_root(root / "opt" / "intel" / "oneapi", {**OLD, "mkl": "2025.1"})
    context = a_context(root, os=DEBIAN)
    assert oneapi.OneapiInstalled().run(context).status == "ok"
    found = toolchain.ToolchainSyclCmake().run(context)
    assert found.status == "fail"
    assert found.detail.startswith("/opt/intel/oneapi/compiler/2025.1 ")


# tools


def icpx(host: EnvHost, text: str) -> Outcome:
    root = host.oneapi(OLD)
    standin.write(root / "compiler" / OLD["compiler"] / "bin" / "icpx", text, mode=0o755)
    return toolchain.ToolchainIcpx().run(host.context(offline("2.8")))


def test_icpx_that_does_not_read_sycl_is_a_warning(host: EnvHost) -> None:
    says = "echo 'Intel(R) oneAPI DPC++/C++ Compiler 2025.1.1 (2025.1.1.20250418)'"
    found = icpx(
        host, f'#!/bin/sh\nif [ "$1" = --version ]; then {says}; else echo no clang >&2; exit 1; fi\n'
    )
    assert (found.status, "no clang" in found.detail) == ("warn", True)


def test_icpx_that_states_its_version_and_fails(host: EnvHost) -> None:
    found = icpx(host, "#!/bin/sh\necho 'Intel(R) oneAPI DPC++/C++ Compiler 2025.1.1 (x)'\nexit 3\n")
    assert (found.status, "status 3" in found.detail) == ("fail", True)


def test_icpx_that_hangs_is_ended(host: EnvHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_DEADLINE_S", 0.5)
    found = icpx(host, "#!/bin/sh\nsleep 60\n")
    assert (found.status, "did not answer" in found.detail) == ("fail", True)


def test_a_program_that_is_none(host: EnvHost) -> None:
    found = icpx(host, "\0\0not a program")
    assert (found.status, "icpx" in found.detail) == ("fail", True)


def test_ninja_that_does_not_run(host: EnvHost) -> None:
    host.facts["tools"] = (ToolFacts("ninja", "/usr/local/bin/ninja"),)
    context = host.context(offline("2.8"))
    assert toolchain.ToolchainNinja().run(context).status == "warn"
    host.facts["tools"] = ()
    assert toolchain.ToolchainNinja().run(host.context()).status == "ok"
    assert toolchain.ToolchainCmake().run(host.context(offline("2.8"))).status == "ok"


@pytest.mark.needs("g++")
def test_cc_and_cxx_of_the_caller_count(host: EnvHost) -> None:
    host.environ["CXX"] = "no-such-compiler"
    assert toolchain.ToolchainGcc().run(host.context(offline("2.8"))).status == "fail"
    host.environ["CXX"] = "g++"
    host.facts["compilers"] = ()
    assert toolchain.ToolchainGcc().run(host.context(offline("2.8"))).status == "ok"


def test_no_compiler_fails_a_recipe_and_warns_without(host: EnvHost) -> None:
    host.facts["compilers"] = ()
    assert toolchain.ToolchainGcc().run(host.context(offline("2.8"))).status == "fail"
    assert toolchain.ToolchainGcc().run(host.context()).status == "warn"


def test_an_old_git_is_told(host: EnvHost) -> None:
    standin.write(host.folder / "bin" / "git", "#!/bin/sh\necho git version 2.25.1\n", mode=0o755)
    host.environ["PATH"] = f"{host.folder / 'bin'}:{host.environ['PATH']}"
    found = toolchain.ToolchainGit().run(host.context())
    assert (found.status, "2.32" in found.detail) == ("fail", True)


# Python and pip


def test_sites_are_found_without_running_anything(host: EnvHost) -> None:
    host.dist("numpy", "2.3.0")
    other = host.folder / "more"
    (other / "yaml-1.0.dist-info").mkdir(parents=True)
    host.environ["PYTHONPATH"] = str(other)
    found = host.context().probe(sites.site)
    assert found is not None
    assert found.folders == (other, host.site)
    assert {dist.name for dist in found.dists} == {"numpy", "yaml"}
    assert found.conda is None


def test_user_packages_count_outside_of_an_environment_only(host: EnvHost) -> None:
    user = host.folder / "home" / ".local" / "lib" / "python3.12" / "site-packages"
    (user / "torch-2.8.0.dist-info").mkdir(parents=True)
    found = host.context().probe(sites.site)
    assert found is not None
    assert found.get("torch") is None
    (host.prefix / "pyvenv.cfg").unlink()
    found = host.context().probe(sites.site)
    assert found is not None
    assert found.get("torch") is not None


def test_an_image_s_python_is_read_inside_it(tmp_path: Path) -> None:
    root = tmp_path / "image"
    packages = root / "usr" / "lib" / "python3" / "dist-packages"
    (packages / "torch" / "lib").mkdir(parents=True)
    (packages / "torch-2.8.0+cpu.dist-info").mkdir()
    standin.write(root / "usr" / "bin" / "python3.12", "", mode=0o755)
    context = Context(a_context().host, {}, root, python=root / "usr" / "bin" / "python3.12")
    assert torch.TorchXpuBuild().run(context).status == "fail"


def test_extras_and_markers_are_no_requirements(host: EnvHost) -> None:
    info = host.dist(
        "a", "1", requires=["b; extra == 'x'", "c>=2; python_version >= '3'", "not a requirement !"]
    )
    found = installed_dists(info.parent)[0]
    assert [item.name for item in sites.requirements(found)] == ["c"]


def test_an_old_python_is_told_with_one_that_fits(host: EnvHost) -> None:
    host.python("3.8.10")
    found = python.PythonVersion().run(host.context(offline("2.13")))
    assert (found.status, "3.8.10" in found.detail) == ("fail", True)
    host.python("3.12.4", implementation="PyPy")
    assert python.PythonVersion().run(host.context(offline("2.13"))).status == "fail"
    host.python(error="ended with status 127")
    assert "127" in python.PythonVersion().run(host.context(offline("2.13"))).detail


def test_setuptools_without_a_recipe_matter_beside_a_torch(host: EnvHost) -> None:
    host.dist("setuptools", "82.0.1")
    assert python.PythonSetuptools().run(host.context()).status == "ok"
    host.torch()
    assert python.PythonSetuptools().run(host.context()).status == "warn"


def test_pip_is_read_in_its_order(host: EnvHost) -> None:
    standin.write(
        host.folder / "home" / ".pip" / "pip.conf", "[global]\nindex-url = https://a.example/simple\n"
    )
    config = "[global]\nindex_url = https://b.example/simple\n[install]\nuser = no\ntarget = /srv/x\n"
    standin.write(host.folder / "home" / ".config" / "pip" / "pip.conf", config)
    standin.write(
        host.prefix / "pip.conf", "[global]\nextra-index-url = https://c.example https://d.example\n"
    )
    context = host.context()
    assert pip.indexes(context) == ("https://b.example/simple", "https://c.example", "https://d.example")
    found = python.PythonPipConstraints().run(context)
    assert found.status == "fail"
    assert "target" in found.detail
    assert "user" not in found.detail.replace("/home/", "")
    host.environ["PIP_CONFIG_FILE"] = os.devnull
    host.environ["PIP_NO_INDEX"] = "1"
    assert pip.indexes(host.context()) == ()
    assert python.PythonPipConstraints().run(host.context()).status == "ok"


def test_a_broken_pip_configuration_breaks_nothing(host: EnvHost) -> None:
    standin.write(host.folder / "home" / ".config" / "pip" / "pip.conf", "user = true\n[")
    assert python.PythonPipConstraints().run(host.context()).status == "ok"


def test_the_index_of_an_unconfigured_pip_is_read_from_pip(host: EnvHost) -> None:
    text = 'PyPI = PackageIndex("https://index.example/", file_storage_domain="files.example")\n'
    standin.write(host.site / "pip" / "_internal" / "models" / "index.py", text)
    assert pip.indexes(host.context()) == ("https://index.example/",)


# libraries


def test_a_damaged_library_is_no_library(tmp_path: Path) -> None:
    place = tmp_path / "libsycl.so.8"
    place.write_bytes(b"\x7fELF" + b"\xff" * 200)
    assert libraries.elf_of(place) is None
    assert libraries.elf_of(tmp_path / "none.so") is None


def test_the_same_file_in_two_folders_hides_nothing(host: EnvHost) -> None:
    host.torch()
    copy = host.folder / "copy"
    library(copy / "libsycl.so.8", mark="of pip")
    host.environ["LD_LIBRARY_PATH"] = str(copy)
    assert shadow.ShadowLibraries().run(host.context()).status == "ok"
    library(copy / "libsycl.so.8", mark="of somebody else")
    found = shadow.ShadowLibraries().run(host.context())
    assert (found.status, str(copy) in found.detail) == ("fail", True)


def test_a_preloaded_library_is_a_finding(host: EnvHost) -> None:
    host.torch()
    other = library(host.folder / "x" / "libsycl.so.8", mark="preloaded")
    host.environ["LD_PRELOAD"] = f"{other} /usr/lib/libjemalloc.so.2"
    assert shadow.ShadowLibraries().run(host.context()).status == "fail"


def libstdcxx(root: Path, offers: list[str], wants: list[str]) -> Outcome:
    folder = root / "usr" / "lib" / "x86_64-linux-gnu"
    library(folder / "libstdc++.so.6", defines=offers)
    library(folder / "libze_intel_gpu.so.1.6", soname="libze_intel_gpu.so.1", wants={"libstdc++.so.6": wants})
    return ShadowLibstdcxx().run(a_context(root, os=DEBIAN))


def test_libstdcxx_of_an_image(tmp_path: Path) -> None:
    good = libstdcxx(tmp_path / "good", ["GLIBCXX_3.4", "GLIBCXX_3.4.30"], ["GLIBCXX_3.4.30"])
    assert (good.status, good.evidence["offers"]) == ("ok", "GLIBCXX_3.4.30")
    bad = libstdcxx(
        tmp_path / "bad", ["GLIBCXX_3.4.9", "GLIBCXX_3.4.30"], ["GLIBCXX_3.4.9", "GLIBCXX_3.4.32"]
    )
    assert bad.status == "fail"
    assert bad.evidence["short"] == {"/usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1.6": ["GLIBCXX_3.4.32"]}
    # 3.4.9 is older than 3.4.30: numbers count, not text.
    assert bad.evidence["offers"] == "GLIBCXX_3.4.30"


def test_oneDNN_of_the_system(tmp_path: Path) -> None:  # noqa: N802 - its name
    standin.write(tmp_path / "usr" / "include" / "dnnl.hpp", "")
    found = shadow_build.ShadowSystem().run(a_context(tmp_path, os=DEBIAN))
    assert found.status == "warn"
    assert found.fix is not None
    assert found.fix.commands == ("apt-get remove libdnnl-dev libmkl-dev",)


# build


def memory(usable_gib: float, **facts: int) -> MemoryFacts:
    return MemoryFacts(total_bytes=256 * GIB, usable_bytes=int(usable_gib * GIB), **facts)


def test_memory_below_the_largest_source_is_a_warning(host: EnvHost) -> None:
    host.facts["memory"] = memory(24)
    found = build.BuildMemory().run(host.context(offline("2.13")))
    assert (found.status, "flash attention" in found.detail) == ("warn", True)
    # An older GCC does not compile it at all.
    host.facts["compilers"] = (CompilerFacts("g++", "/usr/bin/g++", "gcc", "12.3.0"),)
    assert build.BuildMemory().run(host.context(offline("2.13"))).status == "ok"


def test_swap_helps_a_machine_and_no_control_group(host: EnvHost) -> None:
    host.facts["memory"] = memory(3, swap_free_bytes=32 * GIB)
    assert build.BuildMemory().run(host.context()).status == "warn"
    host.facts["memory"] = memory(3, swap_free_bytes=32 * GIB, cgroup_limit_bytes=4 * GIB)
    assert build.BuildMemory().run(host.context()).status == "fail"
    host.facts["memory"] = MemoryFacts()
    assert build.BuildMemory().run(host.context()).status == "skip"


def test_one_core_with_little_memory_is_no_news(host: EnvHost) -> None:
    host.facts.update(memory=memory(6), cpu=CpuFacts(usable=2))
    assert build.BuildMemory().run(host.context()).status == "ok"


def disk(host: EnvHost, **facts: Any) -> DiskFacts:
    usual: dict[str, Any] = {
        "total_bytes": 900 * GIB,
        "free_bytes": 800 * GIB,
        "filesystem": "ext4",
        "mount_point": "/",
    }
    return DiskFacts(str(host.folder / "work"), **{**usual, **facts})


def test_few_inodes_are_a_failure(host: EnvHost) -> None:
    host.facts["disk"] = disk(host, inodes_free=1000)
    found = build.BuildDisk().run(host.context(offline("2.8")))
    assert (found.status, "inodes" in found.detail) == ("fail", True)


def test_little_space_is_a_warning_without_a_recipe(host: EnvHost) -> None:
    host.facts["disk"] = disk(host, free_bytes=10 * GIB)
    assert build.BuildDisk().run(host.context()).status == "warn"
    assert build.BuildDisk().run(host.context(load("quickstart"))).status == "ok"


def test_a_quota_counts(host: EnvHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        filesystem, "_source", lambda mount_point: "server:/home" if mount_point == "/" else ""
    )
    report = "echo 'Filesystem blocks quota limit'\necho 'server:/home 9437184* 8388608 10485760 0 5 0 0 0'\n"
    standin.write(host.folder / "bin" / "quota", f"#!/bin/sh\n{report}", mode=0o755)
    host.environ["PATH"] = f"{host.folder / 'bin'}:{host.environ['PATH']}"
    found = build.BuildDisk().run(host.context(offline("2.8")))
    assert (found.status, "quota leaves 1 GiB" in found.detail) == ("fail", True)


def test_tmpdir_that_is_not_there(host: EnvHost) -> None:
    host.environ["TMPDIR"] = str(host.folder / "gone")
    assert build.BuildTmpdir().run(host.context()).status == "fail"


@pytest.mark.parametrize(("free", "status"), [(4 * GIB, "ok"), (4 * GIB - 1, "warn")])
def test_tmpdir_with_little_space(host: EnvHost, free: int, status: str) -> None:
    host.free_bytes = free
    found = build.BuildTmpdir().run(host.context())
    assert found.status == status
    assert ("GiB left" in found.detail) is (status == "warn")


def test_nothing_is_left_in_the_folders_that_were_tried(host: EnvHost) -> None:
    context = host.context()
    for check in (build.BuildTmpdir, build.BuildFilesystem, build.BuildClock):
        found = check().run(context)
        assert found.status == "ok", found
    assert not [*(host.folder / "tmp").iterdir(), *(host.folder / "work").iterdir()]


@pytest.mark.parametrize(
    ("facts", "status"),
    [({"filesystem": "nfs4"}, "warn"), ({"read_only": True}, "fail"), ({"noexec": True}, "fail"), ({}, "ok")],
)
def test_file_systems(host: EnvHost, facts: dict[str, Any], status: str) -> None:
    host.facts["disk"] = disk(host, **facts)
    assert build.BuildFilesystem().run(host.context()).status == status


def test_files_from_the_future(host: EnvHost) -> None:
    late = host.folder / "work" / "src" / "torch" / "setup.py"
    standin.write(late, "")
    context = host.context(workspace=host.folder / "work")
    assert build.BuildClock().run(context).status == "ok"
    os.utime(late, (time.time() + 86400, time.time() + 86400))
    found = build.BuildClock().run(context)
    assert found.status == "fail"
    assert str(late) in found.detail


def test_a_clock_behind_its_own_software(host: EnvHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xpubuild.doctor.checks.build.time.time", lambda: 86400.0)
    found = build.BuildClock().run(host.context())
    assert (found.status, "1970-01-02" in found.detail) == ("fail", True)


# torch and caches


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

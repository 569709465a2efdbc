"""What is installed of PyTorch and beside it, and compile caches of an earlier one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import DEBIAN, NO_GPU, EnvHost, findings, offline
from support.doctor_frame import a_context
from support.doctor_shows import shows
from support.small_elf import library

from xpubuild.doctor.checks import build, caches, python, shadow, shadow_system, toolchain, torch
from xpubuild.doctor.checks.shadow_system import shadow_libstdcxx
from xpubuild.doctor.kit import Look, Outcome
from xpubuild.doctor.look import sites
from xpubuild.doctor.registry import families, shipped
from xpubuild.explain.rules import shipped_rules
from xpubuild.recipe.load import load
from xpubuild.supply.git.git import OLDEST


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


@shows("fail", "torch.xpu_build")
def test_a_cuda_torch_is_named(host: EnvHost) -> None:
    host.torch("2.8.0+cu128", xpu=False, cuda="12.8")
    found = torch.torch_xpu_build(host.context())
    assert (found.status, "CUDA 12.8" in found.detail) == ("fail", True)
    assert "torch==2.8.0" in found.fix.commands[0]


def test_the_fix_of_a_mispaired_vision_names_what_belongs_to_torch(host: EnvHost) -> None:
    host.torch("2.8.0+xpu")
    host.vision("0.99.0", requires="torch==2.98.0")
    fix = torch.torch_vision_pairing(host.context()).fix
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
        (lambda host: host.torch("2.8.0+cpu", xpu=False), {"torch.xpu_build"}),
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


# ---- Libraries that hide others: copies, preloads, what an image has


def test_a_preloaded_library_is_a_finding(host: EnvHost) -> None:
    host.torch()
    other = library(host.folder / "x" / "libsycl.so.8", mark="preloaded")
    host.environ["LD_PRELOAD"] = f"{other} /usr/lib/libjemalloc.so.2"
    assert shadow.shadow_libraries(host.context()).status == "fail"


def libstdcxx(root: Path, offers: list[str], wants: list[str]) -> Outcome:
    folder = root / "usr" / "lib" / "x86_64-linux-gnu"
    library(folder / "libstdc++.so.6", defines=offers)
    library(folder / "libze_intel_gpu.so.1.6", soname="libze_intel_gpu.so.1", wants={"libstdc++.so.6": wants})
    return shadow_libstdcxx(a_context(root, os=DEBIAN))


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


@shows("warn", "shadow.system")
def test_oneDNN_of_the_system(tmp_path: Path) -> None:  # noqa: N802 - its name
    standin.write(tmp_path / "usr" / "include" / "dnnl.hpp", "")
    found = shadow_system.shadow_system(a_context(tmp_path, os=DEBIAN))
    assert found.status == "warn"
    assert found.fix.commands == ("apt-get remove libdnnl-dev libmkl-dev",)


def test_an_old_libstdcxx_on_the_path_of_the_loader(host: EnvHost) -> None:
    old = library(host.folder / "old" / "libstdc++.so.6", defines=["GLIBCXX_3.4"])
    host.environ["LD_LIBRARY_PATH"] = str(old.parent)
    found = shadow_libstdcxx(host.context())
    assert (found.status, found.evidence["offers"]) == ("fail", "GLIBCXX_3.4")


# ---- Interpreters, their packages and pip's configuration, read without running them


def test_sites_are_found_without_running_anything(host: EnvHost) -> None:
    host.dist("numpy", "2.3.0")
    other = host.folder / "more"
    (other / "yaml-1.0.dist-info").mkdir(parents=True)
    host.environ["PYTHONPATH"] = str(other)
    found = host.context().probe(sites.site)
    assert found.folders == (other, host.site)
    assert {dist.name for dist in found.dists} == {"numpy", "yaml"}
    assert found.conda is None


def test_an_image_s_python_is_read_inside_it(tmp_path: Path) -> None:
    root = tmp_path / "image"
    packages = root / "usr" / "lib" / "python3" / "dist-packages"
    (packages / "torch" / "lib").mkdir(parents=True)
    (packages / "torch-2.8.0+cpu.dist-info").mkdir()
    standin.write(root / "usr" / "bin" / "python3.12", "", mode=0o755)
    context = Look(a_context().host, {}, root, python=root / "usr" / "bin" / "python3.12")
    assert torch.torch_xpu_build(context).status == "fail"


def test_an_old_python_is_told_with_one_that_fits(host: EnvHost) -> None:
    host.python("3.8.10")
    found = python.python_version(host.context(offline("2.13")))
    assert (found.status, "3.8.10" in found.detail) == ("fail", True)
    host.python("3.12.4", implementation="PyPy")
    assert python.python_version(host.context(offline("2.13"))).status == "fail"
    host.python(error="ended with status 127")
    assert "127" in python.python_version(host.context(offline("2.13"))).detail


@pytest.mark.parametrize(
    ("text", "variables", "status", "commands"),
    [
        ("[global]\ntarget = /a\n", {"PIP_TARGET": "/a"}, "fail", ("unset PIP_TARGET", "pip config debug")),
        ("[install]\nuser = yes\n", {"PIP_USER": "no"}, "fail", ("pip config debug",)),
        ("[wheel]\nno-deps = true\n", {}, "fail", ("pip config debug",)),
        ("[download]\nconstraint = /c.txt\n", {}, "warn", ("pip config debug",)),
        ("[list]\nuser = yes\n", {"PIP_TARGET": "/a"}, "warn", ("unset PIP_TARGET",)),
    ],
)
def test_a_setting_of_a_file_counts_whatever_the_variable_says(
    host: EnvHost, text: str, variables: dict[str, str], status: str, commands: tuple[str, ...]
) -> None:
    file = host.folder / "home" / ".config" / "pip" / "pip.conf"
    standin.write(file, text)
    host.environ.update(variables)
    found = python.python_pip_constraints(host.context())
    assert found.status == status
    assert (str(file) in found.detail) == ("pip config debug" in commands)
    assert found.fix.commands == commands


# ---- What holds of all checks: the failure families they foresee, their texts, constants of other packages


CHECKS = {check.id for check in shipped()}


def test_the_table_has_the_families_of_explain() -> None:
    assert set(families()) == {entry.family for entry in shipped_rules().rules}


def test_the_table_names_checks_that_there_are() -> None:
    named = {check for checks in families().values() for check in checks}
    assert len(named) > 40
    assert named <= CHECKS


def test_constants_are_those_of_their_sources() -> None:
    base = load("2.13").recipe
    assert base.needs.disk_gib == build.DISK_GIB
    assert base.components["torch"].build.memory_gib_per_job == build.GIB_PER_JOB
    assert toolchain.OLDEST_GIT == OLDEST


def test_every_check_explains_itself() -> None:
    for check in shipped():
        assert len(check.explanation) > 100, check.id
        assert "|" not in check.title

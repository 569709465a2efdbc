"""More of what checks of the environment answer on few machines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import EnvHost, offline
from support.doctor_frame import assert_answer
from support.small_elf import library
from unit.test_doctor_env_seldom import OLD, Prepared, with_torch_for_the_cpu

from xpubuild.doctor.checks import caches, driver, python, shadow, toolchain, torch
from xpubuild.doctor.kit import Check, Look
from xpubuild.recipe.load import load


def with_a_cache(variable: str, below: str = "") -> Prepared:
    def prepare(host: EnvHost) -> Look:
        cache = host.folder / "a cache" / below
        cache.mkdir(parents=True)
        (cache / "kernel.json").write_bytes(b"x" * 100)
        (cache / "gone.so").symlink_to("nowhere")
        host.environ[variable] = str(host.folder / "a cache")
        return host.context()

    return prepare


def with_caches_of_a_user(variable: str) -> Prepared:
    def prepare(host: EnvHost) -> Look:
        host.environ.pop("USER", None)
        host.environ[variable] = "somebody"
        for place in (host.folder / "tmp/torchinductor_somebody", host.folder / "home/.triton/cache"):
            place.mkdir(parents=True)
            (place / "x").write_bytes(b"x" * 7)
            os.utime(place / "x", (10.0, 10.0))
        return host.context()

    return prepare


def with_objects_of_another_runtime(host: EnvHost) -> Look:
    host.torch()
    library(host.folder / "home/.triton/cache/a/b.so", needed=["libsycl.so.7", "libsycl.so.8"])
    return host.context()


def with_a_huge_cache(host: EnvHost) -> Look:
    place = host.folder / "home/.triton/cache/x"
    place.parent.mkdir(parents=True)
    place.touch()
    os.truncate(place, (20 << 30) + 1)
    return host.context()


def with_two_modules(*names: str, kind: str = "file") -> Prepared:
    def prepare(host: EnvHost) -> Look:
        folders = [host.folder / "one", host.folder / "two"]
        for name in names:
            for folder in folders:
                library(folder / name, mark=folder.name)
            library(host.system / name, mark="system")
            if kind != "file":
                (folders[0] / name).unlink()
            if kind == "gone":
                (folders[0] / name).symlink_to("nowhere")
            elif kind == "fifo":
                os.mkfifo(folders[0] / name)
        host.environ["LD_LIBRARY_PATH"] = ":".join(map(str, folders))
        return host.context()

    return prepare


def with_two_releases_sourced(host: EnvHost) -> Look:
    root = host.oneapi(OLD)
    standin.add_component(root, "compiler", "2025.3")
    library(root / "compiler/2025.3/lib/libsycl.so.8", mark="newer")
    folders = [root / "compiler" / version / "lib" for version in ("2025.3", "2025.1")]
    host.environ["LD_LIBRARY_PATH"] = ":".join(map(str, folders))
    return host.context()


def with_setuptools(version: str, pinned: str, *, wanted: str = "") -> Prepared:
    """Prepare a recipe whose requirement files are the given ones: what they pin, what they are made from."""

    def prepare(host: EnvHost) -> Look:
        host.dist("setuptools", version)
        (host.folder / "tools.txt").write_text(f"# x\nsetuptools=={pinned}\n")
        if wanted:
            (host.folder / "tools.in").write_text(f"wheel\nsetuptools{wanted}  # why\n")
        loaded = offline("2.8")
        tools = loaded.recipe.toolchain.model_copy(update={"requirements": ["tools.txt"]})
        recipe = loaded.recipe.model_copy(update={"toolchain": tools})
        changes = {"recipe": recipe, "folders": (host.folder / "none", host.folder)}
        return host.context(loaded.model_copy(update=changes))

    return prepare


def without_icpx(host: EnvHost) -> Look:
    root = host.oneapi(OLD)
    (root / "compiler" / OLD["compiler"] / "bin" / "icpx").unlink()
    return host.context(offline("2.8"))


#: Test -> what is prepared, the check that is asked, how it answers: status, words, first command.
RARE: dict[str, tuple[Prepared, Check, str, str, str]] = {
    "a cache of its own": (with_a_cache("TRITON_CACHE_DIR"), caches.caches_stale, "ok", "cache", ""),
    "a home of Triton": (
        with_a_cache("TRITON_HOME", ".triton/cache"),
        caches.caches_stale,
        "ok",
        "cache/.triton/cache",
        "",
    ),
    "a cache of Inductor": (with_a_cache("TORCHINDUCTOR_CACHE_DIR"), caches.caches_stale, "ok", "cache", ""),
    "old caches of USER": (
        with_caches_of_a_user("USER"),
        caches.caches_stale,
        "warn",
        "is older than the driver",
        "rm -rf",
    ),
    "old caches of LOGNAME": (
        with_caches_of_a_user("LOGNAME"),
        caches.caches_stale,
        "warn",
        "is older than the driver",
        "rm -rf",
    ),
    "caches of another runtime": (
        with_objects_of_another_runtime,
        caches.caches_stale,
        "warn",
        "contains objects for libsycl.so.7, but torch uses libsycl.so.8",
        "rm -rf",
    ),
    "a huge cache": (with_a_huge_cache, caches.caches_stale, "warn", "uses 20 GiB", "rm -rf"),
    "no recipe for a driver": (EnvHost.context, driver.driver_recipe, "skip", "needs a recipe (--recipe", ""),
    "a recipe without a driver": (
        lambda host: host.context(load("quickstart")),
        driver.driver_recipe,
        "skip",
        "the recipe quickstart is for the cpu",
        "",
    ),
    "two modules": (
        with_two_modules("libumf.so.1", "libother.so.1"),
        shadow.shadow_libraries,
        "fail",
        "takes precedence over",
        "unset LD_LIBRARY_PATH LD_PRELOAD",
    ),
    "two modules and a link to nothing": (
        with_two_modules("libumf.so.1", kind="gone"),
        shadow.shadow_libraries,
        "ok",
        "no library on LD_LIBRARY_PATH or LD_PRELOAD takes precedence over",
        "",
    ),
    "two modules and a pipe": (
        with_two_modules("libumf.so.1", kind="fifo"),
        shadow.shadow_libraries,
        "fail",
        "takes precedence over",
        "unset LD_LIBRARY_PATH LD_PRELOAD",
    ),
    "two modules of the loader": (
        with_two_modules("libze_loader.so.1", "libccl.so.1", "libumf.so.1", "libdnnl.so.3"),
        shadow.shadow_libraries,
        "fail",
        "takes precedence over",
        "unset LD_LIBRARY_PATH LD_PRELOAD",
    ),
    "two releases of oneAPI": (
        with_two_releases_sourced,
        shadow.shadow_libraries,
        "ok",
        "no library on LD_LIBRARY_PATH or LD_PRELOAD takes precedence over",
        "",
    ),
    "setuptools as pinned": (
        with_setuptools("80.9.0", "80.3.1"),
        python.python_setuptools,
        "ok",
        "setuptools 80.9.0",
        "",
    ),
    "setuptools above the pinned": (
        with_setuptools("81.0.0", "80.3.1"),
        python.python_setuptools,
        "warn",
        "setuptools 81.0.0 is installed, the recipe needs <81; xpubuild",
        "-m pip install 'setuptools<81'",
    ),
    "setuptools of the range": (
        with_setuptools("81.0.0", "80.3.1", wanted="<82"),
        python.python_setuptools,
        "ok",
        "setuptools 81.0.0",
        "",
    ),
    "setuptools above the range": (
        with_setuptools("82.0.0", "80.3.1", wanted=">=62,<82"),
        python.python_setuptools,
        "warn",
        "setuptools 82.0.0 is installed, the recipe needs >=62,<82; xpubuild",
        "-m pip install 'setuptools>=62,<82'",
    ),
    "icpx that is gone": (
        without_icpx,
        toolchain.toolchain_icpx,
        "fail",
        "the installation that a build would use) does not exist",
        "--version",
    ),
    "libraries of torch for the CPU": (
        with_torch_for_the_cpu,
        torch.torch_libraries,
        "skip",
        "no XPU build of torch is installed",
        "",
    ),
}


@pytest.mark.parametrize("name", RARE)
def test_rare(tmp_path: Path, name: str) -> None:
    prepare, check, status, told, types = RARE[name]
    assert_answer(check(prepare(EnvHost(tmp_path))), status, told, types)

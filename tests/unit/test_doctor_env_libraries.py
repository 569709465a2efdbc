"""Libraries that hide others: copies, preloads, what an image has."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import DEBIAN, EnvHost
from support.doctor_frame import a_context
from support.doctor_shows import shows
from support.small_elf import library

from xpubuild.doctor.checks import shadow, shadow_system
from xpubuild.doctor.checks.shadow_system import shadow_libstdcxx
from xpubuild.doctor.kit import Outcome


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


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
    assert found.fix is not None
    assert found.fix.commands == ("apt-get remove libdnnl-dev libmkl-dev",)


def test_an_old_libstdcxx_on_the_path_of_the_loader(host: EnvHost) -> None:
    old = library(host.folder / "old" / "libstdc++.so.6", defines=["GLIBCXX_3.4"])
    host.environ["LD_LIBRARY_PATH"] = str(old.parent)
    found = shadow_libstdcxx(host.context())
    assert (found.status, found.evidence["offers"]) == ("fail", "GLIBCXX_3.4")

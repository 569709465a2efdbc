"""Libraries that hide others: copies, preloads, what an image has."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import DEBIAN, EnvHost
from support.doctor_frame import a_context
from support.doctor_shows import shows
from support.small_elf import library

from xpubuild.doctor.checks import shadow, shadow_build, toolchain
from xpubuild.doctor.checks.shadow_libstdcxx import shadow_libstdcxx
from xpubuild.doctor.kit import Check, Outcome
from xpubuild.machine.tools import ToolFacts


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
    found = shadow_build.shadow_system(a_context(tmp_path, os=DEBIAN))
    assert found.status == "warn"
    assert found.fix is not None
    assert found.fix.commands == ("apt-get remove libdnnl-dev libmkl-dev",)


def test_an_old_libstdcxx_on_the_path_of_the_loader(host: EnvHost) -> None:
    old = library(host.folder / "old" / "libstdc++.so.6", defines=["GLIBCXX_3.4"])
    host.environ["LD_LIBRARY_PATH"] = str(old.parent)
    found = shadow_libstdcxx(host.context())
    assert (found.status, found.evidence["offers"]) == ("fail", "GLIBCXX_3.4")


@pytest.mark.parametrize(
    ("variable", "value", "status"),
    [
        ("CFLAGS", "-O2 -Werror", "warn"),
        ("CMAKE_ARGS", "-DCMAKE_CXX_FLAGS=-D_GLIBCXX_USE_CXX11_ABI=0", "warn"),
        ("WERROR", "1", "warn"),
        ("WERROR", "OFF", "ok"),
        ("USE_CUDA", "on", "warn"),
        ("USE_CUDA", "0", "ok"),
    ],
)
def test_switches_that_change_a_build(host: EnvHost, variable: str, value: str, status: str) -> None:
    host.environ[variable] = value
    assert shadow_build.shadow_variables(host.context()).status == status


def with_its_own_libstdcxx(host: EnvHost) -> Path:
    """Put a libstdc++ first that is older than the ninja on PATH needs, and not than the driver does."""
    folder = host.folder / "module" / "lib"
    library(folder / "libstdc++.so.6", defines=["GLIBCXX_3.4", "GLIBCXX_3.4.32"])
    ninja = library(host.folder / "programs" / "ninja", wants={"libstdc++.so.6": ["GLIBCXX_3.4.33"]})
    host.facts["tools"] = (ToolFacts("ninja", str(ninja)),)
    host.environ["LD_LIBRARY_PATH"] = str(folder)
    return ninja


def test_a_program_on_path_that_needs_a_newer_libstdcxx(host: EnvHost) -> None:
    ninja = with_its_own_libstdcxx(host)
    found = shadow_libstdcxx(host.context())
    assert (found.status, f"{ninja} needs GLIBCXX_3.4.33" in found.detail) == ("fail", True)
    assert found.fix is not None
    assert found.fix.commands == ("unset LD_LIBRARY_PATH",)
    # Without the variable every program takes the system's.
    del host.environ["LD_LIBRARY_PATH"]
    assert shadow_libstdcxx(host.context()).status == "ok"


@pytest.mark.parametrize(
    ("check", "name"), [(toolchain.toolchain_ninja, "ninja"), (toolchain.toolchain_cmake, "cmake")]
)
def test_what_a_libstdcxx_holds_up_is_not_to_be_reinstalled(host: EnvHost, check: Check, name: str) -> None:
    script = '#!/bin/sh\n[ -n "$LD_LIBRARY_PATH" ] && exit 127\necho 3.31.6\n'
    with_its_own_libstdcxx(host)
    program = host.folder / "programs" / name
    program.unlink(missing_ok=True)
    standin.write(program, script, mode=0o755)
    host.facts["tools"] = (ToolFacts(name, str(program)),)
    told = check(host.context())
    assert (told.status, "see shadow.libstdcxx" in told.detail) == ("skip", True)
    # Where only a build is asked for, shadow.libstdcxx is not run.
    told = check(host.context(profiles=frozenset({"build"})))
    assert told.fix is not None
    assert told.fix.commands == ("unset LD_LIBRARY_PATH",)
    # One that does not run either way is broken itself.
    program.write_text("#!/bin/sh\nexit 127\n")
    told = check(host.context())
    assert told.fix is not None
    assert "remove it from PATH" in told.fix.summary

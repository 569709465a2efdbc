"""The XPU gate on what upstream's own CMake printed and wrote; the lines are recorded ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.data_files import loaded

from xpubuild.artifacts.cmake_build import read_sycl_groups
from xpubuild.artifacts.gate_rules import Expectation
from xpubuild.artifacts.xpu_gate import XpuGate
from xpubuild.engine.model import Caution, Stop, Verdict

DATA = Path(__file__).parent.parent / "data" / "gate-lines.yaml"
LINES = loaded(DATA)


def judged(text: str, release: str, **switches: str) -> list[Verdict]:
    wanted = {"USE_XPU": "1", "TORCH_XPU_ARCH_LIST": "pvc", "CMPLR_ROOT": "/opt/one", **switches}
    gate = XpuGate(Expectation(release, wanted, "/src/torch", "/ws/env"))
    found = [item for number, line in enumerate(text.splitlines(), 1) for item in gate.line(line, number)]
    return [*found, *gate.poll(), *gate.poll()]


def rules(verdicts: list[Verdict]) -> list[str]:
    return [item.id if isinstance(item, Caution) else item.error.evidence["rule"] for item in verdicts]


def cases() -> Iterator[Any]:
    for item in LINES:
        for release in item["releases"]:
            yield pytest.param(item, str(release), id=f"{item['rule']}-{release}")


@pytest.mark.parametrize(("item", "release"), list(cases()))
def test_recorded_lines_bring_their_rule_to_speak(item: Mapping[str, Any], release: str) -> None:
    """Each of them was printed by a configure step that the gate had let pass."""
    text, switches = item["text"], item.get("switches", {})
    assert rules(judged(text, release, **switches)) == [item["rule"]]
    indented = "".join(f"  {line}\n" for line in text.splitlines())
    assert rules(judged(indented, release, **switches)) == [item["rule"]], "as pip indents it"


def test_what_follows_from_a_loss_is_no_finding_of_its_own() -> None:
    lost = "Can NOT find SYCL compiler tool kit!\n"
    text = f"{lost}-- Compile Intel GPU AOT Targets for pvc,bmg\n--   USE_XPU : OFF\n"
    assert rules(judged(text, "2.8.0")) == ["sycl-of-torch-xpu-ops"]


def test_pti_is_not_missed_without_the_profiler() -> None:
    pti = next(item for item in LINES if item["rule"] == "pti-not-found")
    assert judged(pti["text"], "2.6.0", USE_KINETO="0") == []


@pytest.mark.parametrize(
    ("targets", "told"),
    [("pvc", []), ("dg2", ["fp64-emulation-missing"]), ("pvc,ats-m150", ["fp64-emulation-missing"]),
     ("", ["fp64-emulation-missing"]), ("none", [])],
)  # fmt: skip
def test_float64_emulation_matters_to_gpus_without_float64(targets: str, told: list[str]) -> None:
    assert rules(judged(FP64, "2.6.0", TORCH_XPU_ARCH_LIST=targets)) == told


# https://github.com/intel/torch-xpu-ops/blob/release/2.6/cmake/BuildFlags.cmake
FP64 = """\
CMake Warning at third_party/torch-xpu-ops/cmake/BuildFlags.cmake:98 (message):
  The compiler does not support the '-fsycl-fp64-conv-emu' flag, will disable
  it.  On some platforms that don't support FP64, running operations with the
  FP64 datatype will raise a Runtime error: Required aspect fp64 is not
  supported on the device or a Native API failed error.
Call Stack (most recent call first):
  third_party/torch-xpu-ops/CMakeLists.txt:39 (include)

-- next
"""
# https://github.com/intel/torch-xpu-ops/blob/release/2.13/cmake/XCCL.cmake#L16
NO_CCL = """\
CMake Warning at third_party/torch-xpu-ops/cmake/XCCL.cmake:16 (message):
  OneCCL library not found!!

-- next
"""


@pytest.mark.parametrize(
    ("there", "release", "rule"),
    [
        ((), "2.13.0", "oneccl-not-found"),
        (("libccl.so.1.0", "libccl.so.1"), "2.13.0", "oneccl-too-old"),
    ],
)
def test_a_oneccl_that_is_too_old_is_not_called_missing(
    tmp_path: Path, there: tuple[str, ...], release: str, rule: str
) -> None:
    for name in ("lib/.keep", *(f"lib/{name}" for name in there)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (caution,) = judged(NO_CCL, release, CCL_ROOT=str(tmp_path))
    assert isinstance(caution, Caution)
    assert caution.id == rule
    assert str(tmp_path) in caution.text


# Shortened lines of a build.ninja and of the scripts that torch-xpu-ops release/2.6 and release/2.13 wrote
# (cmake/Modules/FindSYCL.cmake, cmake/Modules/FindSYCL/run_sycl.cmake).
_HEAD = "  COMMAND = cd /build && "
_COMPILE = (
    _HEAD + "/env/bin/cmake -E make_directory /build/ops/CMakeFiles/{group}.dir/sycl/. && /env/bin/cmake -D"
    " verbose:BOOL=OFF -D generated_file:STRING=/build/ops/CMakeFiles/{group}.dir/sycl/./{name}.o"
    " -P {build}/ops/CMakeFiles/{group}.dir/sycl/{group}_gen_{name}.o.Release.cmake\n"
)
_LINK = (
    _HEAD + "/one/bin/icx -fPIC -fsycl -fsycl-targets=spir64_gen,spir64 -fsycl-link"
    " /build/ops/CMakeFiles/{group}.dir/sycl/./a.cpp.o -Xs {xs} -o"
    " /build/ops/CMakeFiles/{group}.dir/./{group}_sycl_device_obj.o\n"
)
_SCRIPT = """\
set(CMAKE_COMMAND "/env/bin/cmake") # path
set(source_file "/src/torch/third_party/torch-xpu-ops/src/ATen/native/xpu/sycl/{name}") # path
set(SYCL_host_compiler "/usr/bin/c++") # path
set(SYCL_executable "/one/bin/icx") # path
set({flags_name} {flags}) # list
set(SYCL_compile_definitions [==[]==]) # list
set(SYCL_host_compiler_flags "-fsycl-host-compiler-options=")
set(CMAKE_HOST_FLAGS  -Wno-error -fPIC -fPIC;-std=c++17;-Wno-deprecated)
set(SYCL_host_compiler "-fsycl-host-compiler=${{SYCL_host_compiler}}")
"""
_FLAGS = (
    "-fsycl;-fsycl-targets=spir64_gen,spir64;-D__INTEL_PREVIEW_BREAKING_CHANGES;-D_GLIBCXX_USE_CXX11_ABI=1"
)
_XS_26 = "\"-device\\ {}\\ -options\\ '\\ -cl-poison-unsupported-fp64-kernels'\""
_XS_213 = '"-device\\ {}\\ -options\\ -cl-poison-unsupported-fp64-kernels"'


def configured(
    folder: Path, *groups: tuple[str, str, int], flags: str = _FLAGS, name: str = "SYCL_flags"
) -> Path:
    """Write a build folder: for each group its name, what its device link gets, how many sources it has."""
    build = folder / "build"
    build.mkdir(parents=True)
    (build / "CMakeCache.txt").write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={folder}\n", "utf-8")
    text = "build all: phony\n"
    for group, xs, count in groups:
        for number in range(count):
            source = f"K{number}.cpp"
            text += _COMPILE.format(group=group, name=source, build=build)
            script = build / f"ops/CMakeFiles/{group}.dir/sycl/{group}_gen_{source}.o.Release.cmake"
            script.parent.mkdir(parents=True, exist_ok=True)
            script.write_text(_SCRIPT.format(name=source, flags=flags, flags_name=name), "utf-8")
        text += _LINK.format(group=group, xs=xs)
    (build / "build.ninja").write_text(text, "utf-8")
    return build


def judged_build(build: Path, release: str | None, targets: str) -> list[Verdict]:
    switches = {"USE_XPU": "1", "TORCH_XPU_ARCH_LIST": targets}
    gate = XpuGate(Expectation(release, switches, str(build.parent), "/ws/env"))
    return gate.line(f"-- Build files have been written to: {build}", 1)


def test_groups_are_read_from_the_generated_commands(tmp_path: Path) -> None:
    build = configured(
        tmp_path, ("kernels", _XS_26.format("pvc,bmg"), 3), ("reduce", _XS_26.format("pvc"), 1)
    )
    kernels, reduce = read_sycl_groups(build)
    assert (kernels.name, len(kernels.sources), kernels.aot) == ("kernels", 3, ("pvc", "bmg"))
    assert kernels.formats == ("spir64_gen", "spir64")
    assert (kernels.host_standard, kernels.device_standard, kernels.cxx11_abi) == ("17", None, 1)
    assert kernels.preview == ("-D__INTEL_PREVIEW_BREAKING_CHANGES",)
    assert (kernels.compiler, kernels.host_compiler) == ("/one/bin/icx", "/usr/bin/c++")
    assert (reduce.name, reduce.aot) == ("reduce", ("pvc",))
    assert read_sycl_groups(tmp_path / "nothing") == ()


@pytest.mark.parametrize(
    ("release", "asked", "groups", "told"),
    [
        ("2.6.0", "pvc", [("kernels", _XS_26.format("pvc"), 2)], []),
        ("2.6.0", "none", [("kernels", _XS_26.format("none"), 2)], ["aot-none-is-a-device"]),
        ("2.7.0", "none", [("torch_xpu_ops", _XS_26.format("none"), 2)], ["aot-none-is-a-device"]),
        ("2.7.0", "", [("torch_xpu_ops", _XS_26.format(""), 2)], ["aot-list-is-empty"]),
        ("2.8.0", "", [("torch_xpu_ops", _XS_26.format("pvc,dg2"), 2)], []),
        ("2.13.0", "none", [("torch_xpu_ops", '"-options\\ -x"', 2)], []),
        (None, "none", [("torch_xpu_ops", '"-options\\ -x"', 2)], []),
        (None, "", [("torch_xpu_ops", '"-options\\ -x"', 2)], ["aot-list-is-empty"]),
        ("2.13.0", "pvc", [("torch_xpu_ops", '"-options\\ -x"', 2)], ["aot-targets-of-commands"]),
        ("2.13.0", "pvc", [("torch_xpu_ops", _XS_213.format("dg2"), 2)], ["aot-targets-of-commands"]),
        ("2.13.0", "", [("torch_xpu_ops", _XS_213.format("pvc,dg2"), 2)], []),
        (
            "2.13.0",
            "pvc",
            [
                ("torch_xpu_ops", _XS_213.format("pvc"), 2),
                ("torch-xpu-ops-sycltla", _XS_213.format("pvc,bmg"), 1),
            ],
            ["aot-targets-of-sycl-tla"],
        ),
        ("2.13.0", "pvc", [], ["no-sycl-commands"]),
        ("2.15.0", "pvc", [], ["no-sycl-commands"]),
    ],
)
def test_targets_of_the_commands_are_held_against_the_request(
    tmp_path: Path, release: str | None, asked: str, groups: list[tuple[str, str, int]], told: list[str]
) -> None:
    build = configured(tmp_path, *groups, name="SYCL_compile_flags")
    assert rules(judged_build(build, release, asked)) == told


def test_sycl_sources_without_options_stop_it(tmp_path: Path) -> None:
    """What torch-xpu-ops 2.6 writes for a host compiler that is not GCC."""
    build = configured(tmp_path, ("kernels", '""', 2), flags="-fsycl")
    (verdict,) = judged_build(build, "2.6.0", "pvc")
    assert isinstance(verdict, Stop)
    assert verdict.error.evidence["rule"] == "aot-targets-of-commands"
    assert verdict.error.evidence["found"] == "nothing"
    assert verdict.error.evidence["file"] == str(build / "build.ninja")


def test_a_build_within_the_build_is_not_pytorchs(tmp_path: Path) -> None:
    """oneDNN is configured by its own CMake, while PyTorch is built, and has no SYCL scripts."""
    build = configured(tmp_path / "onednn")
    gate = XpuGate(Expectation("2.13.0", {"TORCH_XPU_ARCH_LIST": "pvc"}, str(tmp_path / "torch"), "/ws/env"))
    assert gate.line(f"-- Build files have been written to: {build}", 1) == []


def test_a_build_that_is_resumed_without_cmake_is_looked_at_too(tmp_path: Path) -> None:
    build = configured(tmp_path, ("torch_xpu_ops", _XS_213.format("dg2"), 1))
    gate = XpuGate(Expectation("2.13.0", {"TORCH_XPU_ARCH_LIST": "pvc"}, str(build.parent), "/ws/env"))
    assert rules(gate.line("[1/1634] Building CXX object a.cpp.o", 1)) == ["aot-targets-of-commands"]

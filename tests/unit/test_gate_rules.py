"""The XPU gate on lines and caches; the texts are upstream's own, with the place each comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import pytest
from packaging.specifiers import SpecifierSet
from support.fall_back import NO_KERNELS, NOT_GCC, NOT_GCC_WARNING
from support.imports import PACKAGE

from xpubuild.artifacts.gate_rules import Expectation, GateRule, shipped_gate_rules
from xpubuild.artifacts.xpu_gate import XpuGate
from xpubuild.cli.app import cli
from xpubuild.documents import built
from xpubuild.engine.model import Caution, Stop, Verdict
from xpubuild.errors import NoXpuError
from xpubuild.safe_yaml import read_yaml

# A build log quoted at https://github.com/pytorch/pytorch/issues/127008, indented as pip does
NO_SYCL = """\
  CMake Warning at cmake/Dependencies.cmake:95 (message):
    Not compiling with XPU.  Could NOT find SYCL.Suppress this warning with
    -DUSE_XPU=OFF.
  Call Stack (most recent call first):
    CMakeLists.txt:863 (include)


  -- Building using own protobuf under third_party per request.
"""
# in the style of https://github.com/pytorch/pytorch/pull/186772
REQUIRED = """\
CMake Error at cmake/public/xpu.cmake:18 (message):
  PyTorch: XPU was explicitly requested (USE_XPU=1) but SYCL cannot be found.
  Please check your oneAPI installation.
Call Stack (most recent call first):
  cmake/Dependencies.cmake:98 (include)

-- Configuring incomplete, errors occurred!
"""
# https://github.com/intel/torch-xpu-ops/blob/release/2.14/cmake/BuildFlags.cmake#L51-L54
TOOLKIT = """\
CMake Error at third_party/torch-xpu-ops/cmake/BuildFlags.cmake:52 (message):
  SYCL_COMPILER_VERSION and USE_XPU must be defined.  Ensure SYCLToolkit is
  found before building torch-xpu-ops.

-- Configuring incomplete, errors occurred!
"""
# https://github.com/intel/torch-xpu-ops/blob/release/2.13/CMakeLists.txt#L72
NO_TLA = """\
CMake Warning at third_party/torch-xpu-ops/CMakeLists.txt:72 (message):
  SYCL-TLA is not build as it only supports GCC >= 13.0 as CXX Compiler on
  Linux Platform!

-- next
"""
# https://github.com/intel/torch-xpu-ops/blob/release/2.13/cmake/XCCL.cmake#L16
NO_CCL = """\
CMake Warning at third_party/torch-xpu-ops/cmake/XCCL.cmake:16 (message):
  OneCCL library not found!!

-- next
"""
XPU = {"USE_XPU": "1", "TORCH_XPU_ARCH_LIST": "pvc", "CMPLR_ROOT": "/opt/one", "CXX": "/usr/bin/icpx"}


def expected(release: str | None = "2.6.0", **switches: str) -> Expectation:
    return Expectation(release, {**XPU, **switches}, "/src/torch", "/ws/env", mkl=True)


def judged(text: str, wanted: Expectation | None = None) -> list[Verdict]:
    gate = XpuGate(wanted or expected())
    verdicts = [item for number, line in enumerate(text.splitlines(), 1) for item in gate.line(line, number)]
    return [*verdicts, *gate.poll(), *gate.poll()]


def stop(verdicts: list[Verdict]) -> NoXpuError:
    (verdict,) = verdicts
    assert isinstance(verdict, Stop)
    assert isinstance(verdict.error, NoXpuError)
    return verdict.error


def caution(verdicts: list[Verdict]) -> Caution:
    (verdict,) = verdicts
    assert isinstance(verdict, Caution)
    return verdict


def test_the_fall_back_is_told_with_pytorchs_own_lines() -> None:
    error = stop(judged(NO_SYCL))
    assert error.exit_code == 53
    assert error.evidence["rule"] == "sycl-not-found"
    assert [item["text"] for item in error.evidence["lines"]] == NO_SYCL.splitlines()[:5]
    assert error.evidence["lines"][0]["line"] == 1
    assert "/opt/one" in error.why
    assert "ls /opt/one/bin/icx" in error.commands[0]


def test_a_message_without_an_end_is_judged_all_the_same() -> None:
    gate = XpuGate(expected())
    for number, line in enumerate(NO_SYCL.splitlines()[:3], 1):
        assert gate.line(line, number) == []
    assert gate.poll() == []
    assert stop(gate.poll()).evidence["rule"] == "sycl-not-found"


@pytest.mark.parametrize(
    ("text", "rule", "release"),
    [
        (NOT_GCC, "host-compiler-not-gcc", "2.13.0"),
        (NOT_GCC_WARNING, "host-compiler-not-gcc", "2.14.0"),
        # https://github.com/intel/torch-xpu-ops/blob/release/2.4/cmake/BuildFlags.cmake#L75
        (
            "Not compiling with XPU. Only support GCC compiler as CXX compiler.\n",
            "host-compiler-not-gcc",
            "2.4.1",
        ),
        (NO_KERNELS, "xpu-kernels-not-included", "2.6.0"),
        (REQUIRED, "sycl-required", "2.14.0"),
        (TOOLKIT, "sycl-toolkit-broken", "2.14.0"),
        ("--   USE_XPU               : OFF\n", "summary-without-xpu", "2.6.0"),
        ("  --   USE_XPU               : 0\n", "summary-without-xpu", "2.6.0"),
        ("--   USE_XPU               :\n", "summary-without-xpu", "2.6.0"),
        ("--   USE_MKLDNN            : OFF\n", "onednn-off", "2.6.0"),
        ("-- Compile Intel GPU AOT Targets for pvc,bmg\n", "aot-targets", "2.8.0"),
        ("Can NOT find SYCL compiler tool kit!\n", "sycl-of-torch-xpu-ops", "2.8.0"),
        ("SYCL: feature test compile failed!!\n", "sycl-of-torch-xpu-ops", "2.8.0"),
        (NO_SYCL, "sycl-not-found", None),
        (REQUIRED, "sycl-required", None),
    ],
)
def test_what_makes_a_build_without_xpu_stops_it(text: str, rule: str, release: str | None) -> None:
    assert stop(judged(text, expected(release))).evidence["rule"] == rule


@pytest.mark.parametrize(
    ("text", "rule", "release"),
    [
        ("--   USE_XCCL              : OFF\n", "xccl-dropped", "2.8.0"),
        ("-- MKL include directory: /usr/include/mkl\n", "mkl-elsewhere", "2.6.0"),
        ("-- MKL libraries: /opt/mkl/libmkl_core.a;-fopenmp;/usr/lib/libm.so\n", "mkl-elsewhere", "2.6.0"),
        (NO_TLA, "flash-attention-lost", "2.13.0"),
        (NO_CCL, "oneccl-not-found", "2.13.0"),
    ],
)
def test_what_is_lost_without_a_lie_is_a_warning(text: str, rule: str, release: str) -> None:
    found = caution(judged(text, expected(release)))
    assert found.id == rule
    assert found.lines[0] == text.splitlines()[0]


@pytest.mark.parametrize(("said", "found"), [("ON", ["xpu-unasked"]), ("1", ["xpu-unasked"]), ("OFF", [])])
def test_xpu_in_a_build_for_the_cpu_is_found(said: str, found: list[str]) -> None:
    verdicts = judged(f"--   USE_XPU               : {said}\n", expected("2.14.1", USE_XPU="0"))
    assert [caution([verdict]).id for verdict in verdicts] == found


@pytest.mark.parametrize(
    ("text", "switches"),
    [
        ("--   USE_XPU               : ON\n", {}),
        ("--   USE_XPU               : 1\n", {}),
        ("-- Compile Intel GPU AOT Targets for bmg,pvc\n", {"TORCH_XPU_ARCH_LIST": "pvc,bmg"}),
        ("-- Compile Intel GPU AOT Targets for pvc,bmg,dg2\n", {"TORCH_XPU_ARCH_LIST": ""}),
        ("--   USE_MKLDNN            : 0\n", {"USE_MKLDNN": "0"}),
        ("--   USE_XCCL              : OFF\n", {"USE_XCCL": "0"}),
        ("--   USE_XCCL              : OFF\n", {"USE_DISTRIBUTED": "0"}),
        ("-- MKL include directory: /ws/env/include\n", {}),
        ("-- MKL include directory: MKL_INCLUDE_DIR-NOTFOUND\n", {}),
        ("$ env USE_XPU=0 cmake --   USE_XPU : OFF tail\n", {}),
        ("[7/9] Building CXX object /torch-xpu-ops/Not compiling with xpu.cpp\n", {}),
    ],
)
def test_what_was_asked_for_passes(text: str, switches: Mapping[str, str]) -> None:
    assert judged(text, expected("2.8.0", **switches)) == []


def test_xccl_is_asked_for_by_default_since_2_8() -> None:
    text = "--   USE_XCCL              : OFF\n"
    assert judged(text, expected("2.7.0")) == []
    assert caution(judged(text, expected("2.7.0", USE_XCCL="1"))).id == "xccl-dropped"
    assert caution(judged(text, expected(None))).id == "xccl-dropped"


def test_each_rule_speaks_once() -> None:
    assert len(judged("--   USE_XPU : OFF\n--   USE_XPU : OFF\n")) == 1


def cache(folder: Path, *lines: str) -> Path:
    path = folder / "build" / "CMakeCache.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("# This is the CMakeCache file.", *lines, "")), "utf-8")
    return path


def test_the_cache_is_read_as_it_appears(tmp_path: Path) -> None:
    gate = XpuGate(replace(expected(), source=str(tmp_path)))
    assert gate.poll() == []
    path = cache(tmp_path, "//Use XPU", "USE_XPU:BOOL=ON")
    assert gate.poll() == []
    cache(tmp_path, "//Use XPU", "USE_XPU:BOOL=OFF")
    error = stop(gate.poll())
    assert error.evidence["file"] == str(path)
    assert error.evidence["lines"] == [{"line": 3, "text": "USE_XPU:BOOL=OFF"}]
    assert gate.poll() == []


def test_a_cache_of_an_earlier_attempt_counts_once_it_is_built_from(tmp_path: Path) -> None:
    path = cache(tmp_path, "USE_XPU:BOOL=OFF")
    gate = XpuGate(replace(expected(), source=str(tmp_path)))
    assert gate.poll() == []
    assert gate.line("-- Configuring", 1) == []
    error = stop(gate.line("  [1/1634] Building CXX object a.cpp.o", 2))
    assert error.evidence["file"] == str(path)
    assert f"rm -f {tmp_path}/build/CMakeCache.txt" in error.commands


def test_a_cache_elsewhere_is_found_by_what_cmake_says(tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "CMakeCache.txt"
    other.parent.mkdir()
    other.write_text("TORCH_XPU_ARCH_LIST:UNINITIALIZED=bmg\n", "utf-8")
    gate = XpuGate(replace(expected(), source=str(tmp_path)))
    assert gate.line(f"-- Build files have been written to: {other.parent}", 1) == []
    error = stop(gate.poll())
    assert error.evidence["rule"] == "aot-targets"
    assert (error.evidence["asked"], error.evidence["found"]) == ("pvc", "bmg")


def test_another_onednn_is_none(tmp_path: Path) -> None:
    inside = tmp_path / "third_party/ideep/mkl-dnn/include"
    for place, rules in ((inside, []), (Path("/opt/one/dnnl/include"), ["onednn-elsewhere"])):
        gate = XpuGate(replace(expected(), source=str(tmp_path)))
        cache(tmp_path, f"MKLDNN_INCLUDE_DIR:PATH={place}")
        found = gate.poll()
        assert [stop([item]).evidence["rule"] for item in found] == rules


def test_a_warning_says_what_to_do_about_it() -> None:
    found = caution(judged(NO_CCL, expected("2.13.0")))
    assert "fix: install oneAPI's ccl component" in found.text
    tla = caution(judged(NO_TLA, expected("2.13.0")))
    assert tla.text.endswith("; run: /usr/bin/icpx --version")


def test_every_suggested_command_of_xpubuild_is_complete() -> None:
    """Complete: it parses, and it names the recipe where a command without one means another recipe."""
    lines = [command for rule in shipped_gate_rules() for command in rule.commands]
    ours = [command.split("xpubuild ", 1)[1].split() for command in lines if "xpubuild " in command]
    assert ours
    for words in ours:
        assert "RECIPE" in words
        command: click.Command = cli
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None
            command = found
        command.make_context("xpubuild", words)


def test_the_shipped_rules_can_be_shown() -> None:
    words = dict.fromkeys(
        ("asked", "found", "sycl_root", "mkl_root", "ccl_root", "source", "environment", "cxx"), "x"
    )
    for rule in shipped_gate_rules():
        for text in (rule.why, rule.fix, *rule.commands):
            assert text.format_map(words)


def require_consistent(rule: Mapping[str, Any]) -> None:
    """Refuse what cannot work: the rules ship with xpubuild, which does not look at this again."""
    built(GateRule, rule)
    assert rule.keys() <= {item.name for item in fields(GateRule)}
    assert re.fullmatch(r"[a-z0-9-]+", rule["id"])
    assert rule["source"].startswith("https://")
    patterns = [rule[name] for name in ("line", "generated") if rule.get(name) is not None]
    assert patterns or rule.get("cache") is not None
    assert rule.get("line") is None or rule.get("find")
    assert all(word == word.lower() for word in rule.get("find", ()))
    compared = rule.get("compare", "present") != "present"
    for pattern in patterns:
        re.compile(pattern)
        assert compared == ("(?P<value>" in pattern)
    for name in ("releases", "by_default"):
        SpecifierSet(rule.get(name, ""))


def test_the_shipped_rules_can_work() -> None:
    rules = read_yaml((PACKAGE / "artifacts" / "gate_rules.yaml").read_text("utf-8"))["rules"]
    for rule in rules:
        require_consistent(rule)
    assert len({rule["id"] for rule in rules}) == len(rules) == len(shipped_gate_rules())


@pytest.mark.parametrize(
    "change",
    [
        {"line": None, "cache": None},
        {"line": "("},
        {"find": ["UPPER"]},
        {"compare": "off"},
        {"releases": "new"},
        {"source": "heard it"},
        {"kind": "hint"},
        {"extra": 1},
    ],
)
def test_a_rule_that_cannot_work_is_refused(change: Mapping[str, object]) -> None:
    good = {"id": "a", "kind": "stop", "find": ["aaa"], "line": "aaa", "what": "w", "why": "y", "fix": "f",
            "source": "https://example.org"}  # fmt: skip
    require_consistent(good)
    with pytest.raises((AssertionError, ValueError, re.error)):
        require_consistent({**good, **change})

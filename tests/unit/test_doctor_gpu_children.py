"""Programs that doctor starts: their environment, how they end, and what is made of what they say."""

from __future__ import annotations

import dataclasses
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from support.doctor_frame import a_context, a_host

from xpubuild.doctor.checks import level_zero
from xpubuild.doctor.kit import Look
from xpubuild.doctor.probes import children, runtimes
from xpubuild.doctor.probes.children import Ending
from xpubuild.doctor.probes.level_zero import RESULTS, Enumeration, result_name, unmasked

PATH = "/usr/bin:/bin"


@pytest.mark.parametrize(
    ("ending", "stage", "name", "told"),
    [
        (Ending("ok"), "start", "", "it ended"),
        (Ending("status", ({"stage": 1}, {"other": 2}), status=3), "1", "", "it exited with code 3"),
        (Ending("crash", ({"stage": "a"}, {"stage": "b"}), status=-signal.SIGABRT), "b", "SIGABRT",
         "it was killed by SIGABRT in b"),
        (Ending("crash", status=-99), "start", "signal 99", "it was killed by signal 99 in start"),
        (Ending("hang", ({"stage": "a"},)), "a", "", "it timed out in a"),
        (Ending("missing"), "start", "", "it ended"),
    ],
)  # fmt: skip
def test_how_a_program_ended(ending: Ending, stage: str, name: str, told: str) -> None:
    assert (ending.stage, ending.signal, ending.told("it")) == (stage, name, told)


def test_the_last_value_counts() -> None:
    ending = Ending("ok", ({"a": 1}, {"a": None}, {"b": 2}))
    assert (ending.value("a", 5), ending.value("b"), ending.value("c"), ending.value("c", 6)) == (
        None,
        2,
        None,
        6,
    )


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        ('echo "$A"; echo " $B " >&2', Ending("ok", (), "a\n", "", 0, "  \n")),
        ("printf %0500d 7 >&2; exit 4", Ending("status", (), "", "0" * 399 + "7", 4, "0" * 499 + "7")),
        ("echo '{\"a\": 1}'; kill -9 $$", Ending("crash", ({"a": 1},), '{"a": 1}\n', "", -9, "")),
    ],
)
def test_a_program_has_the_callers_environment(body: str, ending: Ending) -> None:
    context = a_context(environ={"PATH": PATH, "A": "a"})
    assert children.child(context, ["sh", "-c", body]) == ending


def test_a_program_may_get_another_environment_and_another_time() -> None:
    context = a_context(environ={"PATH": PATH, "A": "a"})
    assert children.child(context, ["sh", "-c", 'echo "$A$B"'], {"PATH": PATH, "B": "b"}).text == "b\n"
    hung = children.child(context, ["sh", "-c", 'echo \'{"stage": "x"}\'; sleep 60'], seconds=0.3)
    assert (hung.how, hung.told("it")) in (("hang", "it timed out in x"), ("hang", "it timed out in start"))
    short = {"PATH": PATH, children.DEADLINE_VARIABLE: "0.1"}
    assert children.child(context, ["sleep", "60"], short).how == "hang"


def test_a_script_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(children, "child", lambda *given: asked.append(given))
    context = a_context()
    children.script(context, "ur_child.py", {"A": "b"}, arguments=("x", "y"))
    path = Path(children.__file__).with_name("ur_child.py")
    assert asked == [(context, [sys.executable, "-I", "-S", str(path), "x", "y"], {"A": "b"})]


TORCH = """\
__version__ = "2.8.0+xpu"
class xpu:
    _is_compiled = staticmethod(lambda: {built})
    device_count = staticmethod(lambda: 3)
"""


@pytest.mark.parametrize(
    ("text", "version", "built", "count"),
    [
        (TORCH.format(built=True), "2.8.0+xpu", True, 3),
        (TORCH.format(built=False), "2.8.0+xpu", False, 0),
        ("__version__ = '2'\nclass xpu: pass\n", "2", False, 0),
        ("__version__ = '1'\n", "1", False, 0),
    ],
)
def test_a_torch_is_asked(tmp_path: Path, text: str, version: str, built: bool, count: int) -> None:
    (tmp_path / "torch.py").write_text(text)
    environ = {"PATH": PATH, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    context = dataclasses.replace(a_context(environ=environ), python=Path(sys.executable))
    found = runtimes.torch_count(context)
    assert (found.version, found.built, found.count, found.hollow) == (version, built, count, False)
    assert found.ending is not None
    assert (found.ending.how, found.ending.stage) == ("ok", "torch.xpu.device_count")
    assert not found.import_failed


def test_a_torch_that_is_none(tmp_path: Path) -> None:
    assert runtimes.torch_count(a_context()) == runtimes.TorchCount()
    environ = {"PATH": PATH, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    def ask() -> runtimes.TorchCount:
        return runtimes.torch_count(Look(a_host(), environ, python=Path(sys.executable)))

    (tmp_path / "torch").mkdir()
    hollow = ask()
    assert (hollow.version, hollow.hollow, hollow.import_failed) == (None, True, False)
    (tmp_path / "torch/__init__.py").write_text("raise ImportError('x')")
    failed = ask()
    assert (failed.version, failed.hollow, failed.import_failed) == (None, False, True)


@pytest.mark.parametrize(
    ("ending", "failed"),
    [
        (None, False),
        (Ending("ok", ({"stage": "import torch"},)), False),
        (Ending("status", ({"stage": "other"},)), False),
        (Ending("crash", ({"stage": "import torch"},)), True),
    ],
)
def test_when_an_import_failed(ending: Ending | None, failed: bool) -> None:
    assert runtimes.TorchCount(ending=ending).import_failed is failed
    assert not runtimes.TorchCount("2.8", ending=ending).import_failed


def test_what_an_enumeration_says() -> None:
    driver = {"devices": [{"type": 1, "n": 1}, {"type": 2, "n": 2}]}
    records = (
        {"libraries": ["/a/libze_loader.so.1.20.6", "/libze_x/liba.so"], "init": 0},
        {"driver": driver},
    )
    found = Enumeration(Ending("ok", records))
    assert (found.load_error, found.code, found.good, found.drivers) == ("", 0, False, (driver,))
    assert found.gpus == ({"type": 1, "n": 1},)
    assert (found.loader_version, found.loader_spec) == ("1.20.6", "")
    assert (found.library("libze_"), found.library("libstdc")) == ("/a/libze_loader.so.1.20.6", "")
    told = ({"load_error": "no"}, {"version": "1.2.3", "spec": "1.9", "init": 0, "error": 7}, {"done": True})
    other = Enumeration(Ending("ok", told))
    assert (other.load_error, other.code, other.good) == ("no", 7, True)
    assert (other.loader_version, other.loader_spec, other.library("x")) == ("1.2.3", "1.9", "")
    assert Enumeration(Ending("crash", ({"done": True},))).good is False
    assert Enumeration(Ending("ok")).code is None


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0x70000001, "DEVICE_LOST"), (0x70000002, "OUT_OF_HOST_MEMORY"), (0x70000003, "OUT_OF_DEVICE_MEMORY"),
        (0x70000006, "DEVICE_REQUIRES_RESET"), (0x70000007, "DEVICE_IN_LOW_POWER_STATE"),
        (0x70010000, "INSUFFICIENT_PERMISSIONS"), (0x70010001, "NOT_AVAILABLE"),
        (0x70020000, "DEPENDENCY_UNAVAILABLE"), (0x78000001, "UNINITIALIZED"),
        (0x78000002, "UNSUPPORTED_VERSION"),
        (0x78000003, "UNSUPPORTED_FEATURE"), (0x78000004, "INVALID_ARGUMENT"), (0x7FFFFFFE, "UNKNOWN"),
    ],
)  # fmt: skip
def test_names_of_results(code: int, name: str) -> None:
    assert result_name(code) == f"ZE_RESULT_ERROR_{name} ({code:#010x})"
    assert result_name(0x12) == "result (0x00000012)"
    assert len(RESULTS) == 13


def test_the_mask_alone_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def script(_context: Look, *given: Any) -> Ending:
        asked.append(given)
        return Ending("ok")

    monkeypatch.setattr("xpubuild.doctor.probes.level_zero.script", script)
    unmasked(a_context(environ={"ZE_AFFINITY_MASK": "0", "A": "b"}))
    unmasked(a_context(environ={"ZE_AFFINITY_MASK": "", "A": "b"}))
    assert asked == [("level_zero_child.py", {"A": "b"}), ("level_zero_child.py",)]


def test_libraries_of_opencl_are_looked_for_as_its_loader_does(tmp_path: Path) -> None:
    for number, folder in enumerate(
        ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "opt")
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / f"lib{number}.so").touch()
    vendors = tmp_path / "etc/OpenCL/vendors"
    vendors.mkdir(parents=True)
    for name, text in (("a.icd", " /x/libigdrcl.so\n"), ("b.icd", "libnvidia.so"), ("c.txt", "libigdrcl.so")):
        (vendors / name).write_text(text)
    context = a_context(tmp_path)
    there = [runtimes.library_exists(context, f"lib{number}.so") for number in range(6)]
    assert there == [True, True, True, True, False, False]
    assert runtimes.library_exists(context, "/opt/lib4.so")
    assert not runtimes.library_exists(context, "/opt/lib5.so")
    assert runtimes.registered(context) == {"/etc/OpenCL/vendors/a.icd": "/x/libigdrcl.so"}


def test_sycl_ls_is_that_of_the_caller(tmp_path: Path) -> None:
    assert runtimes.sycl_devices(a_context(environ={"PATH": str(tmp_path)})) == runtimes.SyclDevices(None)
    program = tmp_path / "sycl-ls"
    lines = ["  [level_zero:gpu][level_zero:0] a", "other", "[EXT_oneapi_opencl:cpu:3] b"]
    program.write_text("#!/bin/sh\ncat <<'E'\n" + "\n".join(lines) + "\nE\n")
    program.chmod(0o755)
    found = runtimes.sycl_devices(a_context(environ={"PATH": f"{tmp_path}:{PATH}"}))
    assert found.program == str(program)
    assert found.lines == (lines[0].strip(), lines[2])
    assert (found.count("level_zero"), found.count("opencl"), found.count("opencl", "cpu")) == (1, 0, 1)


def test_adapters_that_are_installed_and_do_not_load() -> None:
    say = "<LOADER>[INFO]: failed to load adapter '{0}' with error: {1}"
    log = "\n".join(
        (
            say.format("/l/libur_adapter_a.so.0", "libz.so: cannot open <LOADER>more"),
            say.format(
                "/l/libur_adapter_b.so.0", "/l/libur_adapter_b.so.0: cannot open shared object file: x"
            ),
            say.format("libur_adapter_c.so.0", "undefined symbol"),
        )
    )
    failed = (
        ("/l/libur_adapter_a.so.0", "libz.so: cannot open"),
        ("libur_adapter_c.so.0", "undefined symbol"),
    )
    assert runtimes.failures(log) == failed
    told = "libur_adapter_a.so.0: libz.so: cannot open; libur_adapter_c.so.0: undefined symbol"
    assert runtimes.names((*failed, *failed)) == told
    platforms = [{"devices": 2}, {"devices": 1}]
    found = runtimes.UnifiedRuntime(None, adapters=({"adapter": "a", "platforms": platforms},))
    assert (found.devices("a"), found.devices("b")) == (3, 0)


def test_copies_of_the_loader_are_found_in_order(tmp_path: Path) -> None:
    folders = ("opt/b", "opt/a", *(folder.lstrip("/") for folder in level_zero.FOLDERS))
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "libze_loader.so.1").touch()
    assert level_zero.FOLDERS == (
        "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64",
    )  # fmt: skip
    context = a_context(tmp_path, environ={"LD_LIBRARY_PATH": "/opt/b:relative:/opt/a:/opt/b:/opt/c"})
    assert level_zero.loader_copies(context) == tuple(f"/{folder}/libze_loader.so.1" for folder in folders)

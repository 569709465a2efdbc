"""Programs that doctor starts: their environment, how they end, and what is made of what they say."""

from __future__ import annotations

import dataclasses
import signal
import sys
from pathlib import Path

import pytest
from support.doctor_frame import a_context

from xpubuild.doctor.probes import children, runtimes
from xpubuild.doctor.probes.children import Ending

PATH = "/usr/bin:/bin"


@pytest.mark.parametrize(
    ("ending", "stage", "told"),
    [
        (Ending("ok"), "start", "it ended"),
        (Ending("status", ({"stage": 1}, {"other": 2}), status=3), "1", "it exited with code 3"),
        (Ending("crash", ({"stage": "a"}, {"stage": "b"}), status=-signal.SIGABRT), "b",
         "it was killed by SIGABRT in b"),
        (Ending("crash", status=-99), "start", "it was killed by signal 99 in start"),
        (Ending("hang", ({"stage": "a"},)), "a", "it timed out in a"),
        (Ending("missing"), "start", "it ended"),
    ],
)  # fmt: skip
def test_how_a_program_ended(ending: Ending, stage: str, told: str) -> None:
    assert (ending.stage, ending.told("it")) == (stage, told)


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

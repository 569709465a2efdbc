"""The program that runs checks in the target's interpreter, itself: its records, whole, without a torch.

A script in the place of that interpreter declares a few checks beside the shipped ones and runs
``suite/run.py``; its ``torch`` has only what is called before the first check.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.imports import ROOT

from xpubuild.engine.environment import base_environment
from xpubuild.verify.child import Child, ChildEnd
from xpubuild.verify.suite import placement
from xpubuild.verify.suite.backends import BACKENDS
from xpubuild.verify.suite.check_import import import_ipex
from xpubuild.verify.suite.context import CheckFailedError, CheckSkippedError, SuiteContext

_TORCH = """
import contextlib, types

float32, float64, calls, device = "float32", "float64", [], str
no_grad = contextlib.nullcontext


def full(size, value, dtype, device):
    return (size, value, dtype, device)


ops = types.SimpleNamespace(
    aten=types.SimpleNamespace(exp=lambda numbers: calls.append(("exp", numbers)), sin=calls.append)
)
"""
_PROGRAM = """
import sys

sys.path.insert(0, {root!r})
from xpubuild.verify.suite import run

load = run._load_suite


def load_more():
    load()
    registry, context = (sys.modules[f"xpubuild_verify_suite.{{name}}"] for name in ("registry", "context"))

    def declared(name, **given):
        return registry.check(f"fake.{{name}}", name, **{{"needs": (), **given}})

    @declared("good")
    def good(c):
        print("on stdout")
        print("on stderr", file=sys.stderr)
        c.progress("half")
        c.note("one note"), c.note("another")
        c.warn("a warning")
        c.metric("endless", float("inf")), c.metric("a", 1.5)
        c.facts["device"] = {{"name": "fake", "options": c.options, "planned": c.planned}}
        c.facts["torch"] = {{"calls": c.torch.calls, "required": sorted(c.required)}}

    @declared("within")
    def within(c):
        c.within("an_error", 0.5, 1.0)
        c.within("another_error", 2.0, 1.0)

    @declared("absent")
    def absent(c):
        c.absent("part", "no part here")

    @declared("required")
    def required(c):
        c.absent("vision", "no vision here")

    @declared("fault")
    def fault(c):
        raise context.CheckFaultError("the reference is NaN")

    @declared("raises")
    def raises(c):
        raise ValueError("a first line\\nand a second")

    @declared("long")
    def long(c):
        context.require(False, "x" * 5000)

    @declared("needs", needs=("fake.good", "fake.absent"))
    def needs(c):
        raise AssertionError("never run")

    @declared("deep", needs=("fake.needs",))
    def deep(c):
        raise AssertionError("never run")

    @declared("last", needs=("fake.good",))
    def last(c):
        sys.stdout.write("no newline")
        context.require(True, "not said")


run._load_suite = load_more
sys.exit(run.main(sys.argv[2:]))
"""
NAMES = [
    f"fake.{name}"
    for name in (
        "good", "within", "absent", "required", "fault", "raises", "long", "needs", "deep", "last"
    )
]  # fmt: skip


def run(
    folder: Path, names: list[str], **more: str
) -> tuple[list[dict[str, Any]], list[tuple[str, ...]], ChildEnd]:
    """Return the records of a run, the output before each, and its end."""
    (folder / "torch.py").write_text(_TORCH)
    python = folder / "python"
    python.write_text(f"#!{sys.executable}\n{_PROGRAM.format(root=str(ROOT))}")
    python.chmod(0o755)
    records: list[dict[str, Any]] = []
    outputs: list[tuple[str, ...]] = []

    def on_record(record: dict[str, Any], output: tuple[str, ...]) -> None:
        records.append(record)
        outputs.append(output)

    log = (folder / "log").open("wb")
    child = Child(
        python, "cpu", ["vision", "ops"], {**base_environment(), "PYTHONPATH": str(folder)}, folder,
        log, dict.fromkeys(names, 60.0), on_record, options={"source": "/a=b", "tests": "t", **more},
    )  # fmt: skip
    with log:
        return records, outputs, child.run(names)


def test_every_way_in_which_a_check_ends(tmp_path: Path) -> None:
    records, outputs, end = run(tmp_path, NAMES)
    processes = {record.pop("process") for record in records if record["event"] == "start"}
    assert len(processes) == 1
    assert processes != {os.getpid()}
    for record in records:
        if record["event"] == "result":
            assert record.pop("duration_s") >= 0

    def result(name: str, status: str, detail: str, **more: Any) -> dict[str, Any]:
        return {
            "event": "result", "id": f"fake.{name}", "status": status, "detail": detail, "metrics": {},
            "warnings": [], **more,
        }  # fmt: skip

    def started(name: str) -> dict[str, Any]:
        return {"event": "start", "id": f"fake.{name}"}

    numbers = [[[16], 0.5, dtype, "cpu"] for dtype in ("float32", "float64")]
    calls = [call for one in numbers for call in (["exp", one], one)]
    limits = {"an_error": 0.5, "an_error_limit": 1.0, "another_error": 2.0, "another_error_limit": 1.0}
    assert records == [
        started("good"),
        {"event": "progress", "id": "fake.good", "detail": "half"},
        {
            "event": "facts",
            "device": {"name": "fake", "options": {"source": "/a=b", "tests": "t"}, "planned": NAMES},
            "torch": {"calls": calls, "required": ["ops", "vision"]},
        },
        result(
            "good", "pass", "one note; another", metrics={"endless": "inf", "a": 1.5}, warnings=["a warning"]
        ),
        started("within"),
        result("within", "fail", "another error is 2, the limit is 1", metrics=limits),
        started("absent"),
        result("absent", "skip", "no part here"),
        started("required"),
        result("required", "fail", "no vision here; --require makes this a failure"),
        started("fault"),
        result("fault", "fail", "the check is at fault, not the device: the reference is NaN"),
        started("raises"),
        result("raises", "fail", "ValueError: a first line"),
        started("long"),
        result("long", "fail", "x" * 1500),
        result("needs", "skip", "needs fake.absent, which was skipped"),
        result("deep", "skip", "needs fake.absent, which was skipped"),
        started("last"),
        result("last", "pass", ""),
    ]  # fmt: skip
    said = dict(zip([(record["event"], record.get("id")) for record in records], outputs, strict=True))
    assert sorted(said["result", "fake.good"]) == ["on stderr", "on stdout"]
    raised = said["result", "fake.raises"]
    assert raised[0] == "Traceback (most recent call last):"
    assert raised[-2:] == ("ValueError: a first line", "and a second")
    assert said["result", "fake.last"] == ("no newline",)
    assert (end.running, end.timed_out) == (None, False)


# ---- What checks ask of their context: settings of torch by old and new names, and optional packages


IPEX = "intel_extension_for_pytorch"


class Mixed:
    """Torch's switches for cuDNN: the old one cannot be read once the new one of a part was set."""

    def __init__(self) -> None:
        self.conv, self.both = SimpleNamespace(fp32_precision="tf32"), True

    @property
    def allow_tf32(self) -> bool:
        if self.both and self.conv.fp32_precision == "ieee":
            raise RuntimeError("you have used a mix of the legacy and new APIs")
        return self.both

    @allow_tf32.setter
    def allow_tf32(self, on: bool) -> None:
        self.both = on


CODEC = "__version__ = '0.12'\ndef size(): return 3\n"
SIZES = ["import codec", "assert (codec.size(), device) == (3, 'cpu'), f'on {device}'"]


def results(records: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    return {item["id"]: (item["status"], item["detail"]) for item in records if item["event"] == "result"}


def test_a_component_brings_its_checks_along(tmp_path: Path) -> None:
    (tmp_path / "codec.py").write_text(CODEC)
    names = ["ops.import", "ops.run"]
    given = {"check.ops": json.dumps({"package": "codec", "run": SIZES})}
    records, outputs, _ = run(tmp_path, names, **given)
    assert results(records) == {"ops.import": ("pass", "codec 0.12"), "ops.run": ("pass", "")}
    (tmp_path / "codec.py").write_text(CODEC.replace("3", "40"))
    records, outputs, _ = run(tmp_path, names, **given)
    assert results(records)["ops.run"] == ("fail", "AssertionError: on cpu")
    assert f">>> {SIZES[1]}" in outputs[-1]
    # It is among those that are required.
    (tmp_path / "codec.py").unlink()
    records, _, _ = run(tmp_path, names, **given)
    assert results(records) == {
        "ops.import": ("fail", "codec is not installed; --require makes this a failure"),
        "ops.run": ("skip", "needs ops.import, which failed"),
    }


def context(*required: str, backend: str = "cpu", **parts: Any) -> SuiteContext:
    class Context(SuiteContext):
        torch = SimpleNamespace(__version__="2.13.0+cpu", **parts)

    return Context(BACKENDS[backend], frozenset(required))


def test_tf32_is_switched_off_again_and_again_without_a_mix_of_names() -> None:
    cudnn = Mixed()
    one = context(backend="cuda", backends=SimpleNamespace(cudnn=cudnn))
    cudnn.conv.fp32_precision = "ieee"
    for _ in range(2):
        one.full_precision()
        assert (cudnn.conv.fp32_precision, cudnn.allow_tf32) == ("ieee", False)


def test_an_older_torch_has_the_old_name_alone() -> None:
    mkldnn = SimpleNamespace(allow_tf32=True)
    context(backend="xpu", backends=SimpleNamespace(mkldnn=mkldnn)).full_precision()
    assert mkldnn.allow_tf32 is False
    assert context(backends=SimpleNamespace()).switch(("mkldnn.matmul.fp32_precision",)) is None


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that installs an extension of a version, with its code."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, IPEX, raising=False)

    def install(version: str, code: str = "") -> None:
        (tmp_path / IPEX).mkdir()
        (tmp_path / IPEX / "__init__.py").write_text(f"__version__ = {version!r}\n{code}\n", "utf-8")
        about = tmp_path / f"{IPEX}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {IPEX}\nVersion: {version}\n", "utf-8")

    yield install
    sys.modules.pop(IPEX, None)


def test_the_retired_extension_is_imported_on_request_alone(installed: Any) -> None:
    installed("2.13.10+xpu")
    with pytest.raises(CheckSkippedError, match="retired: only --require ipex"):
        import_ipex(context())
    assert IPEX not in sys.modules
    asked = context("ipex")
    import_ipex(asked)
    assert asked.notes == [f"{IPEX} 2.13.10+xpu"]


@pytest.mark.parametrize(
    ("version", "code", "said"),
    [
        ("2.8.10+xpu", "raise SystemExit(127)", r"2\.8\.10\+xpu is for another release than torch 2\.13\.0"),
        ("2.13.0", "raise OSError('undefined symbol: x')", "cannot be imported: OSError: undefined symbol"),
    ],
)
def test_an_extension_that_is_not_for_this_torch(installed: Any, version: str, code: str, said: str) -> None:
    installed(version, code)
    with pytest.raises(CheckFailedError, match=said):
        import_ipex(context("ipex"))


def test_an_extension_that_is_not_there_fails_where_it_is_required() -> None:
    with pytest.raises(metadata.PackageNotFoundError, match=IPEX):
        import_ipex(context("ipex"))


def test_a_profiler_that_cannot_be_enabled_sees_nothing() -> None:
    """PTI says PTI_ERROR_NOT_IMPLEMENTED where Level Zero has no handles: no check fails for that."""

    def refuses(**_: object) -> object:
        raise RuntimeError("Fail to enable Kineto Profiler on XPU due to error code: 2")

    class Torch:
        profiler = SimpleNamespace(
            ProfilerActivity=SimpleNamespace(XPU="xpu"), supported_activities=lambda: {"xpu"}, profile=refuses
        )
        ones = staticmethod(lambda *_, **__: None)

    assert not placement._sees(Torch, "xpu:0", "xpu", "XPU")

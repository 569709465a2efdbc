"""What checks ask of their context: settings of torch by old and new names, and optional packages."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xpubuild.verify.suite import placement
from xpubuild.verify.suite.backends import BACKENDS
from xpubuild.verify.suite.check_import import import_ipex
from xpubuild.verify.suite.context import CheckFailedError, CheckSkippedError, SuiteContext

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

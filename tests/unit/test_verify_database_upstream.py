"""What is read of PyTorch's operator database, and the context of a check, with a stand-in for torch."""

from __future__ import annotations

import sys
import unittest
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from xpubuild.verify.suite import database
from xpubuild.verify.suite.database import differentiable, name_of, objections, tolerance, types_of


class DType(str):
    """A type of elements, by its name."""

    __slots__ = ()

    @property
    def is_complex(self) -> bool:
        return self.startswith("complex")


TORCH = SimpleNamespace(**{name: DType(name) for name in database.TYPES if not name.startswith("uint1")})
Decorators = list[Callable[[Any], Any]]


class Info:
    """An entry of the database: other types on each kind of device, and decorators by test."""

    def __init__(self, name: str = "add", variant: str = "", **more: Any) -> None:
        self.name, self.variant_test_name, self.decorators = name, variant, more.pop("decorators", [])
        self.asked: list[tuple[Any, ...]] = []
        self._by_test: dict[tuple[str, str], Decorators] = more.pop("by_test", {})
        vars(self).update(more)

    def supported_dtypes(self, kind: str) -> set[str]:
        return {"cuda": {"int64", "float32"}, "xpu": {"bool"}, "cpu": {"float64", "uint16"}}[kind]

    def supported_backward_dtypes(self, kind: str) -> set[str]:
        return {"cuda": {"float32", "complex32"}, "cpu": {"float64"}}[kind]

    def get_decorators(
        self, group: str, test: str, kind: str, dtype: str, more: dict[str, Any]
    ) -> Decorators:
        self.asked.append((test, kind, dtype, more))
        return self._by_test.get((test, kind), [])


def test_names_types_and_gradients() -> None:
    assert (name_of(Info()), name_of(Info("pad", "circular"))) == ("add", "pad.circular")
    assert types_of(TORCH, Info(), "cpu:0") == ["float64"]
    assert types_of(TORCH, Info(), "cuda") == types_of(TORCH, Info(), "xpu:1") == ["float32", "int64"]
    assert types_of(TORCH, Info(dtypesIf={"cuda": ()}), "xpu") == ["float32", "int64"]
    assert types_of(TORCH, Info(dtypesIf={"xpu": ()}), "xpu") == ["bool"]
    found = [differentiable(TORCH, Info(), TORCH.float32, device) for device in ("xpu:0", "cuda", "cpu")]
    assert found == [True, True, False]
    assert differentiable(TORCH, Info(), TORCH.complex32, "cuda") is False


def needs_more(_: Any) -> Any:
    raise AttributeError("needs a real test")


def fails(_: Any) -> Any:
    def test(_self: Any) -> None:
        raise KeyError("this says nothing")

    return test


def skips(_: Any) -> Any:
    def test(self: Any) -> None:
        raise unittest.SkipTest(f"on {self.device_type} {self.get_primary_device()} {'x' * 200}")

    return test


@pytest.mark.parametrize(
    ("decorators", "reason"),
    [
        ([], ""),
        ([needs_more, unittest.skip("it is slow")], "upstream skips it: it is slow"),
        ([unittest.skip("")], "upstream skips it: no reason"),
        ([unittest.skip("x" * 200)], f"upstream skips it: {'x' * 200}"[:120]),
        ([unittest.expectedFailure], "upstream expects it to fail"),
        ([fails], ""),
        ([lambda _: None], ""),
        ([skips], f"upstream skips it: on xpu xpu {'x' * 200}"[:120]),
    ],
)
def test_what_upstream_says_against_a_case(decorators: Decorators, reason: str) -> None:
    info = Info(by_test={("test_out", "xpu"): decorators})
    assert objections(TORCH, info, TORCH.float16, "xpu:0") == ({"out": reason} if reason else {})
    assert info.asked == [
        ("test_compare_cpu", "xpu", "float16", {}), ("test_compare_cpu", "cuda", "float16", {}),
        ("test_noncontiguous_samples", "xpu", "float16", {}),
        ("test_variant_consistency_eager", "xpu", "float16", {}), ("test_out", "xpu", "float16", {}),
        ("test_fn_grad", "xpu", "float16", {}), ("test_fn_grad", "xpu", "float64", {}),
    ]  # fmt: skip


def wider(given: Any, **more: Any) -> Any:
    return SimpleNamespace(decorators=[SimpleNamespace(d=given), SimpleNamespace()], **more)


def test_tolerances_are_the_widest_of_uncompiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torch.testing._comparison")
    vars(module)["default_tolerances"] = lambda dtype: {"float32": (1e-6, 1e-5), "int64": (0, 0)}[dtype]
    monkeypatch.setitem(sys.modules, "torch.testing._comparison", module)
    pair = SimpleNamespace(rtol=1e-3, atol=1e-9)
    entries = [
        wider({"float32": pair}, device_type="cuda"), wider({"float32": 1e-4}, device_type=None),
        wider({"float32": 5.0}, device_type="mps"), wider({"float32": 5.0}, cls_name="TestDecomp"),
        wider({"float16": 5.0}), SimpleNamespace(d={"float32": 1e-7}), SimpleNamespace(d=7), wider(None),
    ]  # fmt: skip
    info = Info(decorators=entries)
    assert tolerance(info, "float32", "xpu:0") == tolerance(info, "float32", "cuda") == (1e-3, 1e-4)
    assert tolerance(info, "float32", "cpu") == (1e-6, 1e-4)
    assert tolerance(info, "int64", "cpu") == (0.0, 0.0)


def test_what_is_not_unique_is_not_compared() -> None:
    assert "as frequent" in objections(TORCH, Info("mode"), TORCH.float32, "cpu")["forward"]

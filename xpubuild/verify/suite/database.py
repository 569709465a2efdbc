"""PyTorch's operator database: which operators there are, in which types, and what upstream says of each.

``torch.testing._internal`` is in every wheel. It describes each operator by an ``OpInfo``: the types that a
device should have, sample inputs, whether it has gradients, variants, and decorators with which upstream's
own tests skip cases and widen tolerances. It imports numpy and expecttest, and in 2.4 packaging, which
torch's wheels do not require (``registry.PACKAGES``).
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .database_choice import NOT_UNIQUE

#: Part of a run -> upstream's test that does the same; where that is skipped or expected to fail, so is this.
ASPECTS = {
    "forward": ("TestCommon", "test_compare_cpu"),
    "strided": ("TestCommon", "test_noncontiguous_samples"),
    "in-place": ("TestCommon", "test_variant_consistency_eager"),
    "out": ("TestCommon", "test_out"),
    "backward": ("TestBwdGradients", "test_fn_grad"),
}
#: Tests of compiled code: their tolerances are not those of kernels.
_COMPILED = ("TestInductorOpInfo", "TestDecomp", "TestJit", "TestNNCOpInfo")
#: Short names of types, in the order of the table.
TYPES = (
    "float32", "float16", "bfloat16", "float64", "complex64", "complex128", "complex32", "int64", "int32",
    "int16", "int8", "uint8", "bool", "uint16", "uint32", "uint64",
)  # fmt: skip


def name_of(info: Any) -> str:
    """Return the name of an operator with its variant: ``nn.functional.pad.circular``."""
    variant = info.variant_test_name
    return f"{info.name}.{variant}" if variant else str(info.name)


@functools.cache
def load() -> dict[str, Any]:
    """Import the database and return its entries by name.

    Raises:
        ImportError: numpy or expecttest is missing.
    """
    # Tests that upstream takes for slow are skipped by their decorator without it.
    os.environ["PYTORCH_TEST_WITH_SLOW"] = "1"
    module = importlib.import_module("torch.testing._internal.common_methods_invocations")
    return {name_of(info): info for info in module.op_db}


def types_of(torch: Any, info: Any, device: str) -> list[str]:
    """Return the types that the device should have for an operator, in the order of ``TYPES``.

    Releases in which the database has no list for xpu: torch-xpu-ops tests with CUDA's there
    (``align_supported_dtypes`` of its test/xpu/xpu_test_utils.py).
    """
    kind = device.partition(":")[0]
    if kind == "xpu" and "xpu" not in getattr(info, "dtypesIf", {}):
        kind = "cuda"
    supported = info.supported_dtypes(kind)
    return [name for name in TYPES if getattr(torch, name, None) in supported]


def differentiable(torch: Any, info: Any, dtype: Any, device: str) -> bool:
    """Return whether upstream says that gradients exist in a type. In complex32 they cannot be added up."""
    if dtype == torch.complex32:
        return False
    kind = device.partition(":")[0]
    return bool(dtype in info.supported_backward_dtypes("cuda" if kind == "xpu" else kind))


def objections(torch: Any, info: Any, dtype: Any, device: str) -> dict[str, str]:
    """Return, by part of a run, why upstream does not run it or expects it to fail.

    What upstream says of comparisons of CUDA with the CPU holds for every device: some results are random.
    Gradients are tested by upstream in double precision alone; what it says of these holds for all types.
    """
    kind = device.partition(":")[0]
    wide = torch.complex128 if dtype.is_complex else torch.float64
    found = {"forward": NOT_UNIQUE[name_of(info)]} if name_of(info) in NOT_UNIQUE else {}
    for aspect, test in ASPECTS.items():
        asked = [(kind, dtype)]
        if aspect == "forward":
            asked.append(("cuda", dtype))
        if aspect == "backward":
            asked.append((kind, wide))
        for device_kind, asked_dtype in asked:
            reason = _objection(info.get_decorators(*test, device_kind, asked_dtype, {}), device_kind)
            if reason:
                found[aspect] = reason
    return found


def _objection(decorators: list[Any], device: str) -> str:
    def probe(_self: Any, *_args: Any, **_kwargs: Any) -> None:
        """Stand for the test that is decorated."""

    test: Any = probe
    for decorator in decorators:
        try:
            test = decorator(test) or test
        except (AttributeError, TypeError, ValueError, RuntimeError):
            continue  # it needs more of a test than this one has
    if getattr(test, "__unittest_skip__", False):
        return f"upstream skips it: {getattr(test, '__unittest_skip_why__', '') or 'no reason'}"[:120]
    if getattr(test, "__unittest_expecting_failure__", False):
        return "upstream expects it to fail"
    try:
        test(SimpleNamespace(device_type=device, get_primary_device=lambda: device))
    except unittest.SkipTest as reason:
        return f"upstream skips it: {reason}"[:120]
    except Exception:  # noqa: BLE001 - a decorator that needs a real test says nothing about this one
        return ""
    return ""


def tolerance(info: Any, dtype: Any, device: str) -> tuple[float, float]:
    """Return upstream's (relative, absolute) tolerance for a type of results.

    That of ``torch.testing``, or the widest that upstream's tests of uncompiled code have for this operator,
    on this device or on any; for xpu those of CUDA too.
    """
    comparison = importlib.import_module("torch.testing._comparison")
    relative, absolute = comparison.default_tolerances(dtype)
    kinds = {None, device.partition(":")[0], "cuda" if device.startswith("xpu") else None}
    for entry in info.decorators:
        if getattr(entry, "device_type", None) not in kinds or getattr(entry, "cls_name", "") in _COMPILED:
            continue
        for decorator in getattr(entry, "decorators", [entry]):
            given = getattr(decorator, "d", None)
            wider = given.get(dtype) if isinstance(given, dict) else None
            if isinstance(wider, float):  # precisionOverride
                absolute = max(absolute, wider)
            elif wider is not None:
                relative, absolute = max(relative, wider.rtol), max(absolute, wider.atol)
    return float(relative), float(absolute)


def by_use(names: list[str]) -> list[str]:
    """Return names of the database, those that programs use most (``database_order.json``) first."""
    text = Path(__file__).with_name("database_order.json").read_text("utf-8")
    uses: dict[str, int] = json.loads(text)["uses"]
    return sorted(names, key=lambda name: -uses.get(name, 0))
